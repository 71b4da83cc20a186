"""A server that is ready, without its HTTP side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tf_host.exact import Verdict
from tf_host.http import Metrics
from tf_host.lanes import EngineThread, Lanes
from tf_host.plugins import Plugins
from tf_host.settings import ServerSettings
from tf_host.text import Text
from tf_plugins.rows import RowPlan
from tf_plugins.types import Admission, Checkpoint, Device, Model, Proposer


@dataclass(frozen=True, slots=True)
class Composed:
    """Everything that start-up made.

    Attributes:
        settings: what the server was told.
        device: what it computes on.
        plugins: the plugins in use.
        target, drafter: facts of the checkpoints.
        text: the target's tokenizer.
        engine: the thread that owns MLX; ``engine.serve(lanes)`` starts the lanes.
        model: the loaded target.
        plan: the row plan of the verdict.
        verdict: what the probe found.
        proposers: in the order that they are asked.
        admission: the owner of the ledger.
        lanes: not turning yet.
        metrics: what the lanes count.
        names: names that requests may use.
        owned: frees the proposers, then the target.
    """

    settings: ServerSettings
    device: Device
    plugins: Plugins
    target: Checkpoint
    drafter: Checkpoint | None
    text: Text
    engine: EngineThread
    model: Model
    plan: RowPlan
    verdict: Verdict
    proposers: Sequence[Proposer]
    admission: Admission
    lanes: Lanes
    metrics: Metrics
    names: tuple[str, ...]
    owned: ExitStack

    def close(self) -> None:
        """End what runs, then free the drafter before the family."""
        self.engine.stop(0.0, self.owned.close)

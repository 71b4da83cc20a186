"""The long exactness check of ``tf-llama-run --check``: the probe again, and longer replays at several depths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table

from tf_host.exact.probe import probe
from tf_host.exact.replay import replay
from tf_host.exact.sample import SAMPLE
from tf_plugins.rows import RowPlan

if TYPE_CHECKING:
    from tf_host.start.composed import Composed

_REPLY = 256
"""Reply tokens compared at each place."""

_PLACES = (200, 900, 3_900, 15_900)
"""Prompt lengths: each reply crosses a bucket edge soon after (256, 1,024, 4,096, 16,384)."""


def check(composed: Composed, out: TextIO, progress_to: TextIO) -> bool:
    """Measure every operation again and replay replies that cross bucket edges; print a table.

    Args:
        composed: a server whose lanes are not turning.
        out: gets the table.
        progress_to: gets a line a step.

    Returns:
        Whether every row was equal.
    """
    ids = composed.text.encode(SAMPLE, special=False)
    kind, plan, model = composed.device.kind, composed.plan, composed.model

    def tell(doing: str, done: float) -> None:
        print(doing, file=progress_to, flush=True)

    base = RowPlan.for_device(kind, plan.context, markers=plan.markers)
    verdict = composed.engine.call(lambda: probe(model, base, kind, composed.verdict.key, ids, tell))
    table = Table(title=f"{composed.target.name} on {composed.device.name}")
    for column in ("operation", "agree", "outputs"):
        table.add_column(column)
    for row in verdict.table:
        table.add_row(row.name, row.agree, f"{row.outputs:,}" if row.outputs else "")
    equal = verdict.exact
    used = verdict.plan(base)
    if equal:
        for place in _PLACES:
            if place + _REPLY >= plan.context:
                continue
            tell(f"replaying {_REPLY} tokens after {place}", 0.0)
            difference = composed.engine.call(partial(replay, model, used, _repeat(ids, place), _REPLY, place))
            table.add_row(f"{_REPLY} tokens after a prompt of {place}", str(difference or "equal"), "")
            equal = equal and difference is None
    Console(file=out, width=120).print(table)
    print(verdict.describe() if equal else "rows differ", file=out)
    return equal


def _repeat(ids: Sequence[int], length: int) -> list[int]:
    return (list(ids) * (length // len(ids) + 1))[:length]

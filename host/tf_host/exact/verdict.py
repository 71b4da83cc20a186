"""What the probe found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tf_plugins.rows import RowPlan

PLAN_VERSION = 3
"""Raised whenever buckets, rungs, chunks, draws or the probe itself change what a row computes or what is checked."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One line of the bands table: an operation and the groups of widths (or the tile) that agree."""

    name: str
    agree: str
    outputs: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether rows are exact, and the band and tile that make them so.

    Attributes:
        exact: every check passed.
        widths: the chosen band; one width where nothing was proven.
        tile: attention queries a call.
        rungs: cache lengths that agree; one where capacities differ in bits.
        table: what was measured, for people.
        failure: the operation that could not be proven, or ``""``.
        key: digest of everything that the verdict holds for.
    """

    exact: bool
    widths: tuple[int, ...]
    tile: int
    rungs: tuple[int, ...]
    table: tuple[OperationRow, ...] = ()
    failure: str = ""
    key: str = ""

    def plan(self, base: RowPlan) -> RowPlan:
        """The plan of this verdict, for the context and device class of ``base``."""
        return replace(base, widths=self.widths, tile=self.tile, rungs=self.rungs)

    @property
    def fingerprint(self) -> str:
        """The reply's ``system_fingerprint``: equal where nothing that moves bits differs."""
        return f"tf-{self.key[:16]}"

    def describe(self) -> str:
        """For the start-up line, for example ``"exact (rows 1-32, tile 1)"``."""
        if not self.exact:
            return f"not proven ({self.failure}); one fixed width of {self.widths[0]}, no drafts"
        low, high = self.widths[0], self.widths[-1]
        rows = str(low) if low == high else f"{low}-{high}"
        return f"exact (rows {rows}, tile {self.tile})"

    def to_json(self) -> str:
        """The verdict as JSON text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """The verdict of ``to_json``; ``ValueError``, ``KeyError`` or ``TypeError`` for anything else."""
        fields: dict[str, Any] = json.loads(text)
        fields["widths"], fields["rungs"] = tuple(fields["widths"]), tuple(fields["rungs"])
        fields["table"] = tuple(OperationRow(**row) for row in fields["table"])
        return cls(**fields)


def verdict_key(bits: Mapping[str, object], weights_key: str, base: RowPlan) -> str:
    """Digest of what a verdict holds for.

    Args:
        bits: versions, backend, device, kernels, instruction set, BLAS with branch and threads, compiled or eager,
            dtype.
        weights_key: digest of the target's config, headers, sizes and revision.
        base: the plan before the probe: grid, markers, buckets and cache lengths of the served context.
    """
    plan = asdict(replace(base, widths=(1,), tile=1))
    plan["markers"] = sorted(base.markers)
    fields = {"plan_version": PLAN_VERSION, "bits": dict(bits), "weights": weights_key, "plan": plan}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

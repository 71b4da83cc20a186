"""Kept states without a model: each remembers its tokens' number and a made-up size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tf_plugins.rows import RowPlan

TOKEN_BYTES = 10


@dataclass(frozen=True, slots=True, eq=False)
class FakeState:
    length: int
    nbytes: int

    def arrays(self) -> dict[str, Any]:
        return {}


def state(length: int, nbytes: int | None = None) -> FakeState:
    return FakeState(length, length * TOKEN_BYTES if nbytes is None else nbytes)


class FakeModel:
    def load_state(self, arrays: dict[str, Any]) -> FakeState:
        raise ValueError("nothing is read here")

    def state_bytes(self, tokens: int) -> int:
        return tokens * TOKEN_BYTES


def cpu_plan(context: int = 8_192) -> RowPlan:
    return RowPlan.for_device("cpu", context)


def gpu_plan(context: int = 8_192, markers: frozenset[int] = frozenset()) -> RowPlan:
    return RowPlan.for_device("gpu", context, markers=markers)


def ids(length: int, seed: int = 0) -> list[int]:
    """Tokens that differ from those of another seed at every position."""
    return [(position * 31 + seed * 7_919 + 5) % 40_000 for position in range(length)]

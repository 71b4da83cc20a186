"""Every byte that grows, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

STREAMS = "streams"
DRAFTERS = "drafter caches"
KEPT = "kept drafter caches"
STATES = "prompt states"


class LedgerError(RuntimeError):
    """A booking that would overdraw the budget or give back what was never taken: a bug, never a user's fault."""


class Ledger:
    """Bytes by kind, never negative and never past the budget.

    Args:
        budget: bytes for everything together.
        counted: kinds whose owners count their own bytes, each with the function that says how many. They are
            read when they are needed, so no second copy of a number can go stale.
    """

    def __init__(self, budget: int, counted: Mapping[str, Callable[[], int]]) -> None:
        self.budget = budget
        self._counted = dict(counted)
        self._taken: dict[str, int] = {}

    def take(self, amounts: Mapping[str, int]) -> None:
        """Book bytes by kind before they are allocated, all or none; ``LedgerError`` where they do not fit."""
        if any(nbytes < 0 for nbytes in amounts.values()):
            raise LedgerError(f"less than nothing cannot be taken: {dict(amounts)}")
        if sum(amounts.values()) > self.room():
            raise LedgerError(f"{dict(amounts)} does not fit beside {self.used()} of {self.budget}")
        self._add(amounts)

    def adopt(self, kind: str, nbytes: int) -> None:
        """Book bytes that their owner counted itself until now: the total stays, so nothing is refused."""
        self._add({kind: nbytes})

    def give(self, amounts: Mapping[str, int]) -> None:
        """Book bytes back once they are free, all or none; ``LedgerError`` where fewer were taken."""
        if any(not 0 <= nbytes <= self._taken.get(kind, 0) for kind, nbytes in amounts.items()):
            raise LedgerError(f"{dict(amounts)} given back, {self._taken} is taken")
        self._add({kind: -nbytes for kind, nbytes in amounts.items()})

    def _add(self, amounts: Mapping[str, int]) -> None:
        for kind, nbytes in amounts.items():
            self._taken[kind] = self._taken.get(kind, 0) + nbytes

    def taken(self) -> int:
        """Bytes booked here, those that owners count themselves left out."""
        return sum(self._taken.values())

    def used(self) -> dict[str, int]:
        """Bytes by kind."""
        return self._taken | {kind: count() for kind, count in self._counted.items()}

    def total(self) -> int:
        """Bytes of all kinds."""
        return sum(self.used().values())

    def room(self) -> int:
        """Bytes that are free; below zero only while an owner holds more than it was granted."""
        return self.budget - self.total()

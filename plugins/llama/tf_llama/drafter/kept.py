"""Caches of streams that ended, kept for the next prompt that begins as theirs did."""

from __future__ import annotations

from collections.abc import Sequence

from tf_llama.drafter.slot import Slot

__all__ = ["Kept"]

LEAST = 16
"""Positions in common that make a kept cache worth taking over: with fewer, a fresh one is read as fast."""


class Kept:
    """Kept caches, the least recently used first.

    Args:
        most: how many are kept, since a server has no use for more than it has streams; ``None`` for as many as the
            ledger has room for.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._slots: list[Slot] = []
        self._found: Slot | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(slot.nbytes for slot in self._slots)

    def find(self, context: Sequence[int]) -> Slot | None:
        """The one that shares the longest prefix with ``context``; it is the last to be shed from now on."""
        best = max(((slot.shared(context), at) for at, slot in enumerate(self._slots)), default=(0, 0))
        self._found = self._slots[best[1]] if best[0] >= LEAST else None
        return self._found

    def add(self, slot: Slot) -> None:
        """Keep one more, the most recently used."""
        self._slots.append(slot)
        while self._most is not None and len(self._slots) > self._most:
            self.remove(self._slots[0])

    def remove(self, slot: Slot) -> None:
        """Keep it no longer."""
        self._slots.remove(slot)
        if self._found is slot:
            self._found = None

    def shed(self, room: int) -> int:
        """Free until at most ``room`` bytes are kept; returns the bytes freed."""
        before = self.nbytes
        for slot in sorted(self._slots, key=lambda slot: slot is self._found):
            if self.nbytes <= room:
                break
            self.remove(slot)
        return before - self.nbytes

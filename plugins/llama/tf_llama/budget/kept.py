"""Proposers' kept caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tf_plugins.types import Shedding


class KeptCaches:
    """What proposers keep for streams that ended.

    Args:
        shedding: proposers by name, in the order that they are asked to shed, as the host holds them.
    """

    def __init__(self, shedding: Mapping[str, Shedding]) -> None:
        self._shedding = dict(shedding)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shedding)

    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(map(self.kept, self._shedding))

    def kept(self, name: str) -> int:
        """Bytes that one proposer keeps."""
        return self._shedding[name].kept()

    def shed(self, name: str, room: int) -> int:
        """Have one proposer free bytes until it keeps at most ``room``; returns the bytes freed."""
        before = self.kept(name)
        self._shedding[name].shed(room)
        return before - self.kept(name)

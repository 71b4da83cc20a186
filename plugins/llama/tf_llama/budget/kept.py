"""Proposers' kept caches, behind a fence: a proposer that fails costs no stream its place."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from tf_plugins.types import Shedding

log = logging.getLogger(__name__)


class KeptCaches:
    """What proposers keep for streams that ended.

    Args:
        shedding: proposers by name, in the order that they are asked to shed.
    """

    def __init__(self, shedding: Mapping[str, Shedding]) -> None:
        self._shedding = dict(shedding)
        self._failed: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._shedding)

    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(map(self.kept, self._shedding))

    def kept(self, name: str) -> int:
        """Bytes that one proposer keeps; 0 where it cannot say."""
        try:
            return max(0, self._shedding[name].kept())
        except Exception:
            self._tell(name, "kept")
            return 0

    def shed(self, name: str, room: int) -> int:
        """Have one proposer free bytes until it keeps at most ``room``; returns the bytes freed."""
        before = self.kept(name)
        try:
            self._shedding[name].shed(room)
        except Exception:
            self._tell(name, "shed")
        return before - self.kept(name)

    def _tell(self, name: str, method: str) -> None:
        # Asked for at every admission: one line is enough.
        if name not in self._failed:
            self._failed.add(name)
            log.exception("proposer %r failed in %s; what it keeps is not counted", name, method)

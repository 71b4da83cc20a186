"""Standing aside: how long a stream decodes plainly before it tries its drafts again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FIRST", "Aside", "Stood"]

FIRST, LONGEST = 64, 1_024


@dataclass(slots=True)
class Stood:
    """Plain rounds that streams of one kind stood since any of them last drafted.

    Attributes:
        rounds: shared ones counted once.
    """

    rounds: float = 0.0


class Aside:
    """One drafted round at once, the next after 64 plain ones, then after twice as many each time, up to 1,024.

    The first is for requests that draft better than the recent ones did. One that pays is followed by another; drafts
    that pay again start the count over.

    Args:
        kind: what all streams of its kind stood.
    """

    def __init__(self, kind: Stood | None = None) -> None:
        self.wait = 0
        self.plain = 0
        self._kind = kind or Stood()

    @property
    def due(self) -> bool:
        """Whether the next round should be drafted, to see whether it pays by now."""
        return self.plain >= self.wait

    @property
    def rounds(self) -> float:
        """Plain rounds that have saved up for it: this stream's, or those of all, where replies are shorter."""
        return max(self.plain, self._kind.rounds)

    def stood(self, streams: int = 1) -> None:
        """A round that so many streams share was plain because drafts do not pay."""
        self.plain += 1
        self._kind.rounds += 1 / streams

    def tried(self) -> None:
        """The drafted round was run."""
        self.wait = min(max(2 * self.wait, FIRST), LONGEST)
        self.plain, self._kind.rounds = 0, 0.0

    def paid(self) -> None:
        """It landed what it cost, so that the next may follow."""
        self.plain = self.wait

    def pays(self) -> None:
        """Drafts pay again."""
        self.wait = FIRST
        self.plain, self._kind.rounds = 0, 0.0

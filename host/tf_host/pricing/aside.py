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

    Attributes:
        again: whether the last one paid.
        plain: plain rounds since it.
    """

    def __init__(self, kind: Stood | None = None) -> None:
        self.again = False
        self.plain = 0
        self._wait = self._waited = 0
        self._kind = kind or Stood()
        self._taken = 0.0

    @property
    def due(self) -> bool:
        """Whether the next round should be drafted, to see whether it pays by now."""
        return self.again or self.plain >= self._wait

    @property
    def rounds(self) -> float:
        """Plain rounds that have saved up for it: this stream's, or those of all, where replies are shorter."""
        return max(self.plain, self._taken, self._kind.rounds)

    def take(self) -> None:
        """It will be drafted by what all have saved, and nobody else's."""
        self._taken, self._kind.rounds = max(self._taken, self._kind.rounds), 0.0

    def stood(self, streams: int = 1) -> None:
        """A round that so many streams share was plain because drafts do not pay."""
        self.plain += 1
        self._kind.rounds += 1 / streams

    def tried(self) -> None:
        """The drafted round was run."""
        self._waited, self._wait = self._wait, min(max(2 * self._wait, FIRST), LONGEST)
        self._restart()

    def paid(self) -> None:
        """It landed what it cost: the next follows, and no longer wait after that."""
        self.again, self._wait = True, self._waited

    def pays(self) -> None:
        """Drafts pay again."""
        self._wait = FIRST
        self._restart()

    def _restart(self) -> None:
        self.again, self.plain, self._taken, self._kind.rounds = False, 0, 0.0, 0.0

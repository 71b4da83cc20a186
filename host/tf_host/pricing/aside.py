"""Standing aside: how long a stream decodes plainly before it tries its drafts again."""

from __future__ import annotations

__all__ = ["Aside"]

FIRST, LONGEST = 64, 1_024


class Aside:
    """One drafted round at once, the next after 64 plain ones, then after twice as many each time, up to 1,024.

    The first is for requests that draft better than the recent ones did. Drafts that pay again start the count over.
    """

    def __init__(self) -> None:
        self.wait = 0
        self.plain = 0

    @property
    def due(self) -> bool:
        """Whether the next round should be drafted, to see whether it pays by now."""
        return self.plain >= self.wait

    def stood(self) -> None:
        """A round was plain because drafts do not pay."""
        self.plain += 1

    def tried(self) -> None:
        """The drafted round was run."""
        self.wait = min(max(2 * self.wait, FIRST), LONGEST)
        self.plain = 0

    def pays(self) -> None:
        """Drafts pay again."""
        self.wait = FIRST
        self.plain = 0

"""Stop strings over a growing text."""

from __future__ import annotations

from collections.abc import Sequence


def borders(pattern: Sequence[object]) -> list[int]:
    """For each prefix of a pattern, the length of its longest proper border (Knuth, Morris and Pratt)."""
    table = [0] * len(pattern)
    for i in range(1, len(pattern)):
        table[i] = advance(pattern, table, table[i - 1], pattern[i])
    return table


def advance(pattern: Sequence[object], table: Sequence[int], matched: int, item: object) -> int:
    """How much of a pattern is matched once ``item`` follows ``matched`` of it, less than the whole."""
    while matched and pattern[matched] != item:
        matched = table[matched - 1]
    return matched + (pattern[matched] == item)


class StopStrings:
    """Finds the stop string that ends first, and holds text back while one may still be completed.

    Works character by character, so the result does not depend on where tokens are cut. Work for each character
    is bounded by the number of stop strings, not by the reply.

    Args:
        stops: non-empty strings.

    Attributes:
        rest: once one was completed, the text behind it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._borders = [borders(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.rest = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """Text that is safe to send, and whether a stop string was completed; nothing may be fed after that."""
        if not self._stops:
            return text, False
        seen = self._held + text
        for at in range(len(self._held), len(seen)):
            longest = self._advance(seen[at])
            if longest:
                self._held, self.rest = "", seen[at + 1 :]
                return seen[: at + 1 - longest], True
        keep = max(self._matched)
        self._held = seen[len(seen) - keep :]
        return seen[: len(seen) - keep], False

    def flush(self) -> str:
        """The text held back, once the reply is over."""
        held, self._held = self._held, ""
        return held

    def _advance(self, char: str) -> int:
        """Length of the longest stop string that ends with ``char``, or 0."""
        longest = 0
        for i, stop in enumerate(self._stops):
            matched = advance(stop, self._borders[i], self._matched[i], char)
            if matched == len(stop):
                longest = max(longest, matched)
                matched = self._borders[i][matched - 1]
            self._matched[i] = matched
        return longest

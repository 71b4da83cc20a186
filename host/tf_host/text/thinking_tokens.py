"""Where the reasoning of a reply begins and ends, told by its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tf_host.text.stops import advance, borders
from tf_host.text.thinking import Phase, ThinkingMarks

__all__ = ["Place", "ThinkingTokens", "reasoning_tokens"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a reply.

    Attributes:
        phase: what it is a place in.
        thought: reasoning tokens before it, and what stands there of the end mark.
        matched: tokens of the mark that was begun, the start's or the end's.
    """

    phase: Phase
    thought: int = 0
    matched: int = 0


class ThinkingTokens:
    """Goes from place to place as ``ThinkingSplit`` does over text.

    Args:
        marks: the marks around reasoning.
        blanks: whether the start mark may follow tokens of white space.
    """

    def __init__(self, marks: ThinkingMarks, *, blanks: bool = True) -> None:
        self._marks = marks
        self._borders = borders(marks.end_ids)
        self._blanks = blanks

    def after(self, place: Place, token: int) -> Place:
        """The place behind a token."""
        start, end = self._marks.start_ids, self._marks.end_ids
        if place.phase == "start":
            if token == start[place.matched]:
                matched = place.matched + 1
                return Place("open") if matched == len(start) else replace(place, matched=matched)
            return place if self._blanks and not place.matched and self._marks.is_blank(token) else Place("closed")
        if place.phase == "closed":
            return place
        matched = advance(end, self._borders, place.matched, token)
        if matched == len(end):
            return Place("closed", place.thought + 1 - len(end))
        return replace(place, thought=place.thought + 1, matched=matched)


def reasoning_tokens(reply: Iterable[int], marks: ThinkingMarks, phase: Phase) -> int:
    """Tokens of a reply's reasoning, marks left out."""
    tokens, place = ThinkingTokens(marks), Place(phase)
    for token in reply:
        if place.phase == "closed":
            break
        place = tokens.after(place, token)
    return place.thought

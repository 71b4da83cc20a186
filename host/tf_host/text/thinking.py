"""A reply that thinks first, cut into its reasoning and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tf_host.text.stops import StopStrings

Part = tuple[Literal["mark", "reasoning", "answer"], str]
"""A stretch of the reply's text; all parts together are the whole text."""


@dataclass(frozen=True, slots=True)
class ThinkingMarks:
    """What a template writes around reasoning.

    Attributes:
        start, end: the marks as text.
        start_ids, end_ids: their tokens.
        is_blank: whether a token is white space.
    """

    start: str
    end: str
    start_ids: tuple[int, ...]
    end_ids: tuple[int, ...]
    is_blank: Callable[[int], bool] = field(default=lambda token: False, compare=False)


Phase = Literal["start", "open", "closed"]
"""Where a reply begins: where reasoning may follow, inside it, or behind it."""


class ThinkingSplit:
    """Follows a growing text; holds back only what may become part of a mark.

    Args:
        marks: the marks to look for.
        phase: where the prompt ended.
    """

    def __init__(self, marks: ThinkingMarks, phase: Phase) -> None:
        self._marks = marks
        self._end = StopStrings((marks.end,))
        self._phase = phase
        self._held = ""

    def feed(self, text: str) -> list[Part]:
        """The parts that this text completes."""
        parts: list[Part] = []
        if self._phase == "start":
            text = self._open(text, parts)
        if self._phase == "open" and text:
            reasoning, ended = self._end.feed(text)
            parts.append(("reasoning", reasoning))
            text = ""
            if ended:
                parts.append(("mark", self._marks.end))
                self._phase, text = "closed", self._end.rest
        if self._phase == "closed":
            parts.append(("answer", text))
        return [part for part in parts if part[1]]

    def flush(self) -> list[Part]:
        """What was held back, once the reply is over."""
        if self._phase == "start":
            held, self._held = self._held, ""
            return [("answer", held)] if held else []
        held = self._end.flush()
        return [("reasoning", held)] if held and self._phase == "open" else []

    def _open(self, text: str, parts: list[Part]) -> str:
        """Looks for the start mark as the reply's first word; returns the text behind it, or all of it."""
        self._held += text
        word = self._held.lstrip()
        if word.startswith(self._marks.start):
            parts.append(("mark", self._held[: len(self._held) - len(word)] + self._marks.start))
            self._phase, rest = "open", word[len(self._marks.start) :]
        elif self._marks.start.startswith(word):
            return ""
        else:
            self._phase, rest = "closed", self._held
        self._held = ""
        return rest

"""The end of a reply that may hold one call only: where a second one would begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_host.text.stops import StopStrings
from tf_host.text.tools import ToolFormat, ToolSplit


class FirstCall:
    """Follows a growing answer, as ``StopStrings`` does, and ends it where a second call would begin.

    What is no call ends nothing. In formats whose call goes on to the end of the reply behind a mark, a second one is
    not seen to begin.

    Args:
        form: the model's format.
        tools: the request's tool definitions.
    """

    def __init__(self, form: ToolFormat, tools: Sequence[Any]) -> None:
        self._form = form
        self._split = ToolSplit(form, tools)
        self._mark: StopStrings | None = None
        self._object = _FirstObject()
        self._looking = True

    def feed(self, text: str) -> tuple[str, bool]:
        """Text that is safe to send, and whether a second call would begin; nothing may be fed after that."""
        return self._marked(text) if self._form.start else self._separated(text)

    def flush(self) -> str:
        """The text held back, once the reply is over."""
        return "" if self._mark is None else self._mark.flush()

    def _marked(self, text: str) -> tuple[str, bool]:
        if self._mark is not None:
            return self._mark.feed(text)
        for at, char in enumerate(text, 1):
            self._split.feed(char)
            if self._split.calls:
                self._mark = StopStrings((self._form.start,))
                safe, ended = self._mark.feed(text[at:])
                return text[:at] + safe, ended
        return text, False

    def _separated(self, text: str) -> tuple[str, bool]:
        """Without marks a call is the reply's first object, with nothing before it and a separator behind it."""
        for at, char in enumerate(text):
            if not self._looking:
                break
            if self._split.calls and not char.isspace():
                self._looking = False
                if char == self._form.between[0]:
                    return text[:at], True
            elif not self._split.calls:
                self._split.feed(char)
                if self._object.ends(char):
                    self._split.flush(complete=True)
                    self._looking = bool(self._split.calls)
        return text, False


class _FirstObject:
    """Follows a text to the end of its first JSON object."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False

    def ends(self, char: str) -> bool:
        """Whether the object ends with this character, the text's next."""
        if self._quoted:
            self._quoted = char != '"' or self._escaped
            self._escaped = char == "\\" and not self._escaped
        elif char == '"':
            self._quoted = True
        elif char in "{}":
            self._depth += 1 if char == "{" else -1
        return char == "}" and not self._quoted and self._depth == 0

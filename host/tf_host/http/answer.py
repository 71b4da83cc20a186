"""A chat reply's text, cut into what the message's fields hold."""

from __future__ import annotations

import uuid
from typing import Any

from tf_host.http.tools_body import ToolUse
from tf_host.text import Phase, ThinkingMarks, ThinkingSplit, ToolCall, ToolSplit

Fields = dict[str, Any]
"""Fields of a streamed delta."""


class Answer:
    """Reasoning, content and tool calls of one reply; line ends around the marks are dropped.

    Args:
        marks: the marks around reasoning, or ``None`` for a model without.
        phase: where the prompt ended.
        tools: the request's tools, where the reply may hold calls.
    """

    def __init__(self, marks: ThinkingMarks | None, phase: Phase, tools: ToolUse | None = None) -> None:
        self._thinking = ThinkingSplit(marks, phase) if marks and phase != "closed" else None
        self._tools = ToolSplit(tools.form, tools.definitions, tools.most) if tools else None
        self._fresh = phase == "open"
        self._line_ends = ""
        self._calls = 0

    @property
    def called(self) -> bool:
        """Whether the reply holds calls so far."""
        return self._calls > 0

    def feed(self, text: str) -> list[Fields]:
        """The deltas that a piece of text completes."""
        if self._thinking is None:
            return self._content(text)
        return self._parts(self._thinking.feed(text))

    def finish(self, *, complete: bool) -> list[Fields]:
        """The deltas of what was held back; a call counts only where the reply is ``complete``."""
        deltas = [] if self._thinking is None else self._parts(self._thinking.flush())
        if self._line_ends:  # the reasoning was cut off: no mark comes
            deltas.append({"reasoning_content": self._line_ends})
        if self._tools is not None:
            for part in self._tools.flush(complete=complete):
                deltas += self._part(part)
        return deltas

    def _parts(self, parts: list[Any]) -> list[Fields]:
        deltas: list[Fields] = []
        for kind, text in parts:
            if kind == "mark":
                self._fresh, self._line_ends = True, ""
                continue
            if self._fresh:
                text = text.lstrip("\r\n")
                self._fresh = not text
            if kind == "answer":
                deltas += self._content(text)
            else:
                deltas += self._reasoning(text)
        return deltas

    def _reasoning(self, text: str) -> list[Fields]:
        """Line ends at its end wait for what comes: before the mark they are dropped."""
        text = self._line_ends + text
        kept = text.rstrip("\r\n")
        self._line_ends = text[len(kept) :]
        return [{"reasoning_content": kept}] if kept else []

    def _content(self, text: str) -> list[Fields]:
        if self._tools is None:
            return [{"content": text}] if text else []
        return [fields for part in self._tools.feed(text) for fields in self._part(part)]

    def _part(self, part: str | ToolCall) -> list[Fields]:
        """A call comes in two deltas, its name first, as clients of streams expect."""
        if isinstance(part, str):
            return [{"content": part}]
        index, self._calls = self._calls, self._calls + 1
        named = {"name": part.name, "arguments": ""}
        return [
            _call({"index": index, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": named}),
            _call({"index": index, "function": {"arguments": part.arguments}}),
        ]


def _call(call: Fields) -> Fields:
    return {"tool_calls": [call]}


def message_of(deltas: list[Fields]) -> Fields:
    """The message that a reply's deltas come to."""
    message: Fields = {"role": "assistant", "content": None}
    calls: list[Fields] = []
    for delta in deltas:
        for name, value in delta.items():
            if name != "tool_calls":
                message[name] = (message.get(name) or "") + value
            elif "id" in value[0]:
                calls.append({key: value[0][key] for key in ("id", "type", "function")})
            else:
                calls[-1]["function"]["arguments"] += value[0]["function"]["arguments"]
    if calls:
        return message | {"tool_calls": calls}
    return message | {"content": message["content"] or ""}

"""Tool calls in a reply's text: which format a model writes, and the calls that a text holds."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tf_host.text.stops import StopStrings

logger = logging.getLogger(__name__)

PYTHON_TAG = "<|python_tag|>"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """How a model writes calls.

    Attributes:
        name: the format's name.
        start: what comes before a call; empty where a call is the whole reply.
        end: what comes behind it; empty where it goes on to the end of the reply.
        parse: the calls between the two; raises anything for a text that holds none.
        arguments: the key of the arguments, in formats that are JSON objects; else ``None``.
        between: what comes between two calls.
        single: whether a message holds one call at most, because the template takes no more.
    """

    name: str
    start: str
    end: str
    parse: Callable[[str, Any], Any]
    arguments: str | None = None
    between: str = "\n"
    single: bool = False


def tool_format(tokenizer: Any) -> ToolFormat | None:
    """The format of a model, by mlx-lm's parsers or as Llama 3's JSON; ``None`` where the template has no tools."""
    template = tokenizer.chat_template
    if not isinstance(template, str) or "tools" not in template:
        return None
    if tokenizer.has_tool_calling:
        start, end = tokenizer.tool_call_start, tokenizer.tool_call_end or ""
        name = tokenizer.init_kwargs["tool_parser_type"]
        form = ToolFormat(name, start, end, tokenizer.tool_parser, "arguments" if name == "json_tools" else None)
    elif '"parameters": dictionary of argument name' in template:
        form = ToolFormat("llama3_json", "", "", _llama3_calls, "parameters", between="; ")
    else:
        return None
    return replace(form, single=_writes_calls(tokenizer, 1) and not _writes_calls(tokenizer, 2))


def _writes_calls(tokenizer: Any, count: int) -> bool:
    """Whether the template writes a message of so many calls, found by rendering one."""
    ids = [f"zqxcall0{at}" for at in range(count)]  # nine letters and digits, as Mistral's templates want them
    calls = [
        {"id": one, "type": "function", "function": {"name": "probe", "arguments": {"of": f"{one}x"}}} for one in ids
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": one, "name": "probe", "content": "hi"} for one in ids),
    ]
    function = {"name": "probe", "description": "", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": function}]
    try:
        text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    except Exception:  # a template is a program: what it was not written for surfaces as anything
        return False
    return all(f"{one}x" in text for one in ids)


class ToolSplit:
    """Follows a reply's answer and takes the calls out of it; a text that is no call stays content.

    Args:
        form: the model's format.
        tools: the request's tool definitions.
        most: calls to take; further ones that ``FirstCall`` did not keep from being written are dropped.
    """

    def __init__(self, form: ToolFormat, tools: Sequence[Any], most: int | None = None) -> None:
        self._form = form
        self._tools = tools
        self._names = {tool["function"]["name"] for tool in tools}
        self._most = most
        self._start = StopStrings((form.start,) if form.start else ())
        self._end: StopStrings | None = None
        self._inside = ""
        self._blank = ""
        self._maybe = not form.start
        self.calls: list[ToolCall] = []

    def feed(self, text: str) -> list[str | ToolCall]:
        """The content and the calls that a text completes."""
        parts: list[str | ToolCall] = []
        if self._maybe:
            text = self._look_at_start(text)
        while text:
            if self._end is None:
                content, begun = self._start.feed(text)
                self._content(content, parts)
                text = ""
                if begun:
                    text, self._inside = self._start.rest, ""
                    self._start = StopStrings((self._form.start,))
                    self._end = StopStrings((self._form.end,) if self._form.end else ())
            else:
                inside, ended = self._end.feed(text)
                self._inside += inside
                text = ""
                if ended:
                    text = self._end.rest
                    self._close(parts, self._form.end)
        return parts

    def flush(self, *, complete: bool) -> list[str | ToolCall]:
        """What is left at the end of the reply.

        Args:
            complete: whether the model ended the reply itself; a call that was cut off is content.
        """
        parts: list[str | ToolCall] = []
        if self._maybe:
            self._content(self._inside, parts)
        elif self._end is not None:
            self._inside += self._end.flush()
            self._close(parts, "", complete=complete)
        else:
            self._content(self._start.flush(), parts)
        if self._blank and not self.calls:
            parts.append(self._blank)
        self._blank = ""
        return parts

    def _look_at_start(self, text: str) -> str:
        """For formats without a mark: a reply that begins like a call is held to its end."""
        self._inside += text
        begun = self._inside.lstrip()
        if not begun or (PYTHON_TAG.startswith(begun) and begun != PYTHON_TAG):
            return ""
        self._maybe = False
        if begun.startswith(("{", PYTHON_TAG)):
            self._end = StopStrings(())
            return ""
        text, self._inside = self._inside, ""
        return text

    def _content(self, text: str, parts: list[str | ToolCall]) -> None:
        """Blank text at the end waits for what comes: around calls it is dropped."""
        text = self._blank + text
        kept = text.rstrip()
        self._blank = text[len(kept) :]
        if kept:
            parts.append(kept)

    def _close(self, parts: list[str | ToolCall], end: str, *, complete: bool = True) -> None:
        calls = self._parsed() if complete else []
        if calls:
            self._blank = ""
            room = None if self._most is None else max(0, self._most - len(self.calls))
            self.calls += calls[:room]
            parts += calls[:room]
        else:
            self._content(self._form.start + self._inside + end, parts)
        self._end, self._inside = None, ""

    def _parsed(self) -> list[ToolCall]:
        """The calls in the text, all of them for known tools, or none."""
        try:
            found = self._form.parse(self._inside, list(self._tools))
            calls = [_checked(call) for call in (found if isinstance(found, list) else [found])]
        except Exception as error:  # parsers raise whatever a text leads them to
            logger.debug("no tool call: %s", type(error).__name__)
            return []
        return calls if all(call.name in self._names for call in calls) else []


def _checked(call: Any) -> ToolCall:
    arguments = call["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(call["name"], str) or not isinstance(arguments, dict):
        raise ValueError("a call is a name and an object of arguments")
    text = json.dumps(arguments, ensure_ascii=False)
    text.encode()  # an escaped half of a surrogate pair is valid JSON, but no text: it raises
    return ToolCall(call["name"], text)


def _llama3_calls(text: str, _: Any) -> list[dict[str, Any]]:
    """``{"name": ..., "parameters": {...}}``, several of them with semicolons between."""
    text, decoder = text.strip().removeprefix(PYTHON_TAG).strip(), json.JSONDecoder()
    calls = []
    while text:
        call, end = decoder.raw_decode(text)
        calls.append({"name": call["name"], "arguments": call["parameters"]})
        rest = text[end:].strip()
        if rest and not rest.startswith(";"):
            raise ValueError("text behind a call")
        text = rest.removeprefix(";").strip()
    return calls

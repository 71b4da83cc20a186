"""The body of ``POST /v1/chat/completions``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, PrivateAttr, model_validator

from tf_host.http.errors import refuse
from tf_host.http.fields import MOST_DEPTH, Part, Whole, known, too_deep, wrong
from tf_host.http.thinking_body import ThinkingBody
from tf_host.http.tools_body import Choice, ToolBody

MOST_TOP_LOGPROBS = 20

_MEDIA = {
    "image_url": "images",
    "input_image": "images",
    "image": "images",
    "input_audio": "audio",
    "audio_url": "audio",
    "video_url": "video",
    "file": "files",
    "input_file": "files",
}


def _content(value: Any) -> Any:
    """Text parts are joined by line ends, as other servers join them."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong("'content' must be a string or a list of text parts")
    texts = []
    for part in value:
        if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
            raise wrong("'content' has a part that is no object with a 'type'")
        if kind in _MEDIA:
            raise wrong(f"{_MEDIA[kind]} are not served: only parts of type 'text' are", "unsupported_content")
        if kind != "text" or not isinstance(part.get("text"), str):
            raise wrong("'content' has a part that is no text part ({'type': 'text', 'text': ...})")
        texts.append(part["text"])
    return "\n".join(texts)


class TextPart(Part):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class CalledFunction(Part):
    """The function of a tool call, its arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(Part):
    """A tool call of an earlier reply."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction


class MessageBody(Part):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str | None, BeforeValidator(_content, json_schema_input_type=str | list[TextPart] | None)] = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    _dropped: tuple[str, ...] = PrivateAttr(())

    @property
    def dropped(self) -> tuple[str, ...]:
        """What its text parts held beside their text."""
        return self._dropped

    @model_validator(mode="wrap")
    @classmethod
    def _notes_dropped(cls, value: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        message = make(value)
        parts = value["content"] if isinstance(value, dict) and isinstance(value.get("content"), list) else ()
        message._dropped = tuple(
            f"content[{at}].{name}"
            for at, part in enumerate(parts)
            for name, one in part.items()
            if name not in TextPart.model_fields and one is not None
        )
        return message

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise wrong(f"a message of role '{self.role}' needs 'content'")
        return self


def template_messages(bodies: Sequence[MessageBody]) -> list[dict[str, Any]]:
    """The messages as templates read them; ``Refused`` for arguments of tool calls that no template can write."""
    messages = []
    for at, body in enumerate(bodies):
        message = known(body)
        message.setdefault("content", "")
        if not message.get("tool_calls", True):  # templates ask whether there is a list, not what is in it
            del message["tool_calls"]
        for number, call in enumerate(message.get("tool_calls", ())):
            param = f"messages[{at}].tool_calls[{number}].function.arguments"
            # Templates write the arguments as JSON themselves.
            call["function"]["arguments"] = _object_or_text(call["function"]["arguments"], param)
        if message["role"] == "developer":  # the newer name, which templates do not know
            message["role"] = "system"
        messages.append(message)
    return messages


def _object_or_text(arguments: str, param: str) -> Any:
    deep = False
    try:
        parsed = json.loads(arguments)
    except RecursionError:
        deep = True
    except ValueError:
        return arguments
    if deep or too_deep(parsed):
        raise refuse("invalid_value", f"'{param}' is nested deeper than {MOST_DEPTH} levels", "flatten it", param=param)
    try:  # an escaped half of a surrogate pair is valid JSON, but no text
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        reason = f"'{param}' has a lone surrogate, which is not valid Unicode"
        raise refuse("invalid_value", reason, "send characters past U+FFFF whole", param=param) from error
    return parsed if isinstance(parsed, dict) else arguments


class ChatBody(ThinkingBody):
    """A conversation to continue."""

    messages: list[MessageBody] = Field(min_length=1)
    max_completion_tokens: Whole | None = Field(None, ge=1, description="the same as max_tokens")
    logprobs: bool | None = Field(None, description="report the log probability of each token")
    tools: list[ToolBody] | None = None
    tool_choice: Choice = None
    parallel_tool_calls: bool | None = Field(None, description="false: at most one call")
    top_logprobs: Whole | None = Field(None, ge=0, le=MOST_TOP_LOGPROBS, description="alternatives for each token")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise wrong("'top_logprobs' needs 'logprobs': true", param="top_logprobs")
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(limits) > 1:
            raise wrong("'max_tokens' and 'max_completion_tokens' differ; send one of them", param="max_tokens")
        return self

    @property
    def most_tokens(self) -> int | None:
        """The limit under either name."""
        return self.max_completion_tokens or self.max_tokens

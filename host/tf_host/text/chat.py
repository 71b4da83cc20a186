"""Messages into prompt tokens, through the model's chat template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.meta import find_undeclared_variables

from tf_host.text.thinking import Phase
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

Message = Mapping[str, Any]

_PROBES = ("zqxa", "zqxb", "zqxc")
"""Words for rendering sample conversations; nothing that a template would write itself."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A rendered conversation.

    Attributes:
        ids: the prompt's tokens.
        boundaries: positions where a message starts, ascending, the first position left out.
        phase: where the prompt ends: before, inside or behind the reply's reasoning.
        unread_fields: paths of messages' fields that certainly changed nothing.
        unread_variables: variables that the template cannot read.
    """

    ids: tuple[int, ...]
    boundaries: tuple[int, ...]
    phase: Phase = "closed"
    unread_fields: tuple[str, ...] = ()
    unread_variables: tuple[str, ...] = ()


class ChatTemplate:
    """A model's chat template, rendered in transformers' sandbox.

    What users write is text: a control token spelled out in a message is encoded as its letters, and only those that
    the template itself writes become tokens.

    Args:
        tokenizer: mlx-lm's ``TokenizerWrapper``, with a template.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        self._control = frozenset(token for token, content in added.items() if content.special)
        spelled = sorted((c.content for c in added.values() if c.content.strip()), key=len, reverse=True)
        self._spelled = re.compile("|".join(map(re.escape, spelled)) or "(?!)")
        program = _parsed(tokenizer.chat_template) if tokenizer._chat_template is None else None
        self._variables = None if program is None else frozenset(find_undeclared_variables(program))
        self._named = None if program is None else _named(program)
        self.marker_ids = self._message_markers()
        self.end_ids = self._turn_ends()

    def ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Any] | None,
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> tuple[int, ...]:
        """The prompt's tokens.

        Args:
            messages: dicts with ``role``, ``content`` and what else the template reads.
            tools: tool definitions, or ``None``.
            add_generation_prompt: end with the start of the reply.
            **variables: further template variables.

        Raises:
            Refused: the template raised, or a key spells out a control token.
        """
        for param, value in (("messages", messages), ("tools", tools), ("chat_template_kwargs", variables)):
            if any(self._spelled.search(key) for key in _keys(value)):
                reason = f"'{param}' has an object key that contains a control token of the model"
                raise Refused(Refusal("invalid_key", reason, "rename the key", param=param))
        spelled = any(self._spelled.search(text) for text in strings([messages, tools, variables]))
        return tuple(
            self._apply(
                list(messages),
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                tokenize=True,
                # Without anything to protect this is plain template-then-encode.
                sanitize_control_tokens=spelled,
                **variables,
            )
        )

    def text(self, messages: Sequence[Message], tools: Sequence[Any] | None, **variables: Any) -> str:
        """What the template writes, the start of the reply left out; ``Refused`` where it raised."""
        text: str = self._apply(list(messages), tools=tools, tokenize=False, **variables)
        return text

    def unread_fields(
        self, messages: Sequence[Message], tools: Sequence[Any] | None, **variables: Any
    ) -> tuple[str, ...]:
        """Paths of messages' fields that the template never names, where it writes the same without them."""
        if self._named is None:
            return ()
        never = {name for message in messages for name in message} - self._named
        without = [{name: one for name, one in message.items() if name not in never} for message in messages]
        if not never or self.text(messages, tools, **variables) != self.text(without, tools, **variables):
            return ()
        return tuple(f"messages[{at}].{name}" for at, message in enumerate(messages) for name in never & set(message))

    def unread_variables(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some variables that the template cannot read; none where its program is not known."""
        if self._variables is None:
            return ()
        read = self._variables
        if self._tokenizer._thinking_kwarg in read:  # mlx-lm hands enable_thinking on under the template's own name
            read |= {"enable_thinking"}
        return tuple(name for name in names if name not in read)

    def boundaries(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Positions past the first that hold a message marker."""
        return tuple(at for at, token in enumerate(ids) if at and token in self.marker_ids)

    def _apply(self, messages: list[Message], **how: Any) -> Any:
        try:
            return self._tokenizer.apply_chat_template(messages, **how)
        except TemplateError as error:
            raise _failed(str(error)) from error
        # A template is a program: what it was not written for surfaces as any of these.
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise _failed(f"{type(error).__name__}: {error}") from error

    def _render(self, *contents: str) -> str | None:
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
        try:
            text: str = self._tokenizer.apply_chat_template(messages, tokenize=False)
        except Exception:  # a template that cannot render a sample has no marks to find
            return None
        return text

    def _message_markers(self) -> frozenset[int]:
        """Control tokens that messages start with, found by rendering a conversation one message longer each."""
        whole = self._render(*_PROBES)
        if whole is None:
            return frozenset()
        found = set()
        for count in (1, 2):
            part = self._render(*_PROBES[:count])
            if part is not None and whole.startswith(part):
                first = self._tokenizer.encode(whole[len(part) :], add_special_tokens=False)[:1]
                found.update(first)
        return frozenset(found & self._control)

    def _turn_ends(self) -> frozenset[int]:
        """The control token that the template writes after an assistant's message."""
        text = self._render(*_PROBES[:2])
        if text is None or _PROBES[1] not in text:
            return frozenset()
        tail = text.rpartition(_PROBES[1])[2]
        for token in self._tokenizer.encode(tail, add_special_tokens=False) if tail else ():
            if token in self._control:
                return frozenset([token])
        return frozenset()


def _parsed(source: Any) -> nodes.Template | None:
    """A template's program; ``None`` for one in another form or dialect."""
    if not isinstance(source, str):
        return None
    try:
        return Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source)
    except TemplateError:
        return None


def _named(program: nodes.Template) -> frozenset[str]:
    """What a template names: as an attribute, or as a text, which may be a key."""
    attributes = {node.attr for node in program.find_all(nodes.Getattr)}
    texts = {node.value for node in program.find_all(nodes.Const) if isinstance(node.value, str)}
    return frozenset({"role", "content"} | attributes | texts)


def _failed(message: str) -> Refused:
    return Refused(
        Refusal(
            "chat_template_failed",
            f"the model's chat template refuses these messages: {message}",
            "change the messages, or start the server with another template (--chat-template FILE)",
            param="messages",
        )
    )


def strings(value: Any) -> Iterator[str]:
    """The texts in a value, however deep; keys of mappings are none of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)

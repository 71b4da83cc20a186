"""The prompts of a bench, each use of one a text of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_plugins import SettingsError

__all__ = ["NUMBER", "Prompt", "load_prompts"]

NUMBER = "{n}"
"""Stands in a prompt for a number that no other use of it gets."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line of a prompt file: chat ``messages`` or a ``text`` to go on with.

    Attributes:
        id: names it in the results.
        kind: what it is an example of, for example ``code``.
        messages: a chat, or ``None``.
        text: a raw completion's prompt, or ``None``.
    """

    id: str
    kind: str
    messages: tuple[dict[str, Any], ...] | None = None
    text: str | None = None

    @property
    def route(self) -> str:
        """Path of the request."""
        return "/v1/chat/completions" if self.messages is not None else "/v1/completions"

    def body(self, number: int) -> dict[str, Any]:
        """The request's prompt fields, made new by ``number``.

        The number takes the place of ``{n}``, or else is put in front, so that no server has read the text before: a
        repeated prompt comes from caches, and drafts its own earlier reply.
        """
        if self.messages is None:
            return {"prompt": _numbered(self.text or "", number, in_front=NUMBER not in (self.text or ""))}
        marked = any(NUMBER in str(message.get("content")) for message in self.messages)
        first = next((i for i, message in enumerate(self.messages) if message.get("role") == "user"), 0)
        return {
            "messages": [
                message | {"content": _numbered(message["content"], number, in_front=not marked and i == first)}
                if isinstance(message.get("content"), str)
                else message
                for i, message in enumerate(self.messages)
            ]
        }


def _numbered(text: str, number: int, *, in_front: bool) -> str:
    return f"{number}. {text}" if in_front else text.replace(NUMBER, str(number))


def load_prompts(path: Path) -> tuple[Prompt, ...]:
    """Prompts of a JSON Lines file: ``{"id", "kind", "messages" | "prompt"}`` a line.

    Raises:
        SettingsError: the file cannot be read, or a line is no prompt; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"--prompts {path}: {error.strerror or error}") from error
    prompts = [_prompt(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise SettingsError(f"--prompts {path}: there is no prompt in it")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise SettingsError(f"--prompts {path}: two prompts have one id")
    return tuple(prompts)


def _prompt(line: str, where: str) -> Prompt:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise SettingsError(f"{where}: not JSON: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        raise SettingsError(f'{where}: expected {{"id": ..., "kind": ..., "messages" or "prompt": ...}}')
    kind, messages, text = record.get("kind", "any"), record.get("messages"), record.get("prompt")
    if isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages) and text is None:
        return Prompt(record["id"], str(kind), messages=tuple(messages))
    if isinstance(text, str) and text and messages is None:
        return Prompt(record["id"], str(kind), text=text)
    raise SettingsError(f"{where}: expected either messages (a list of objects) or a prompt (a text)")

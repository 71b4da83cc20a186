"""How a field of the settings is declared: its default, its limits, and the words that messages use for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode


def setting(default: Any, description: str, *, expected: str, metavar: str = "", **limits: Any) -> Any:
    """A pydantic field.

    Args:
        default: its value when no source gives one.
        description: one line for ``--help`` and the docs.
        expected: completes "... must be" in the message about a wrong value.
        metavar: the value's name in ``--help``; empty for a switch.
        limits: pydantic's (``ge``, ``le``, ``min_length`` and so on).
    """
    words: JsonDict = {"expected": expected, "metavar": metavar}
    return Field(default, description=description, json_schema_extra=words, **limits)


def word(field: FieldInfo, name: str) -> str:
    """What ``setting`` was given as ``expected`` or ``metavar``."""
    words = field.json_schema_extra
    return str(words[name]) if isinstance(words, dict) else ""


def is_key(text: str) -> bool:
    """Whether a text can be an API key: some printable characters, no white space among them."""
    return bool(text) and text.isprintable() and " " not in text


def _split(value: object) -> object:
    """Names from a flag or a variable come in one string, with commas between them."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _no_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) != len(names):
        raise ValueError("a name is given twice")
    return names


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_no_repeats)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]

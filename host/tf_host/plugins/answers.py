"""What an object that a plugin gives must be before anything else touches it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from tf_plugins.types import Proposer, Refusal
from tf_plugins.types.proposer import RESERVED_NAMES


def fault_of(item: object, kind: type[Any]) -> str | None:
    """What keeps an object from being one of its kind, or ``None``."""
    if isinstance(item, type):
        return f"its {item.__name__} is a class and not an object"
    if lacking := _lacking(item, kind):
        return f"its {type(item).__name__} is no {kind.__name__}: it has no {lacking}"
    return None


def name_fault(item: Any, kind: type[Any]) -> str | None:
    """Why an object cannot go by its name, or ``None``; names stand in logs, in metrics and between quotes."""
    if not _is_line(item.name) or any(letter in item.name for letter in "\"'\\"):
        return f"its name {item.name!r} is not one line of printable text without quotes and backslashes"
    if kind is Proposer:
        if item.name in RESERVED_NAMES:
            return f"its name {item.name!r} is the host's own"
        if not _is_line(item.label):
            return f"its label {item.label!r} is not one line of printable text"
    return None


def refusal_fault(answer: object, *, of_request: bool) -> str | None:
    """Why an answer cannot be shown as a refusal, or ``None``; of a start's no status is read."""
    if not isinstance(answer, Refusal):
        return f"it returned {type(answer).__name__}"
    for field in ("name", "reason"):
        if not _is_text(text := getattr(answer, field)) or not text:
            return f"the {field} of its Refusal is {text!r} and not a text"
    if not _is_text(answer.hint):
        return f"the hint of its Refusal is {answer.hint!r} and not a text"
    if answer.param is not None and not _is_text(answer.param):
        return f"the param of its Refusal is {answer.param!r} and not a text"
    status: object = answer.status
    if of_request and not (isinstance(status, int) and 400 <= status <= 599):
        return f"the status of its Refusal is {status!r} and not one from 400 to 599"
    return None


def _is_text(value: object) -> bool:
    """Whether it can be sent: a text without lone surrogates."""
    return isinstance(value, str) and value == value.encode(errors="ignore").decode()


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.strip() == value != ""


def _lacking(item: object, kind: type[Any]) -> str | None:
    """The first member of a protocol that an object lacks; for a dataclass, its name."""
    if dataclasses.is_dataclass(kind):
        return None if isinstance(item, kind) else f"type {kind.__name__}"
    members = [name for name in (*inspect.get_annotations(kind), *vars(kind)) if not name.startswith("_")]
    return next((name for name in members if not hasattr(item, name)), None)

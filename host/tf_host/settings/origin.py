"""Where a setting's value came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Origin:
    """One value's source, as messages name it.

    Attributes:
        kind: which source gave it.
        name: the flag, the variable, or ``file: dotted.path``.
    """

    kind: Literal["flag", "environment", "file", "default"]
    name: str

    def __str__(self) -> str:
        return self.name


DEFAULT = Origin("default", "default")


def flag(field: str) -> str:
    """The flag of a field; MODEL is the one that has none."""
    return "MODEL" if field == "model" else "--" + field.replace("_", "-")

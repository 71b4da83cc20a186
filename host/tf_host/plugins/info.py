"""Rows of ``tf-serve --plugins``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One installed plugin, or one that the settings name in vain.

    Attributes:
        name: its name in the settings.
        distribution: the installed distribution that ships it, or ``"unknown"``.
        version: that distribution's version, or ``"unknown"``.
        hooks: the hooks that it implements, by name; empty while it was not imported.
        state: ``loaded`` (in use), ``available`` (installed and not in use) or ``failed`` (in use, and unusable).
        error: why it failed.
    """

    name: str
    distribution: str
    version: str
    hooks: tuple[str, ...]
    state: Literal["loaded", "available", "failed"]
    error: str | None = None


def as_json(rows: Sequence[PluginInfo]) -> str:
    """The rows as a JSON list."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def as_table(rows: Sequence[PluginInfo]) -> str:
    """The rows as a table for people, what failed explained below it."""
    cells = [("name", "distribution", "version", "state", "hooks")]
    cells += [(row.name, row.distribution, row.version, row.state, _hooks(row)) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines += [f"\n{row.error}" for row in rows if row.error]
    return "\n".join(lines)


def _hooks(row: PluginInfo) -> str:
    if row.state == "available":
        return "(not imported)"  # what it implements is known once it is in use
    return ", ".join(row.hooks) or "-"

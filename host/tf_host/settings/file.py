"""Settings from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tf_host.settings.fields import word
from tf_host.settings.model import ServerSettings
from tf_host.settings.nearest import did_you_mean
from tf_host.settings.origin import Origin
from tf_plugins import SettingsError


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file that was read.

    Attributes:
        name: the file as the user named it.
        values: settings by field name, not checked yet.
        tables: the ``[plugins.<name>]`` tables, not checked yet.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def origin(self, path: str) -> Origin:
        """How messages name a key of the file."""
        return Origin("file", f"{self.name}: {path}")


def read(name: str) -> SettingsFile:
    """Read a settings file; ``SettingsError`` when it is not there, no TOML, or has a key or value that is none."""
    try:
        parsed = tomllib.loads(Path(name).expanduser().read_text("utf-8"))
    except OSError as error:
        raise SettingsError(
            f"the settings file {name} cannot be read: {error.strerror or error}\n"
            "hint: give --settings the path of a TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f'{name}: not a TOML file: {error}\nhint: TOML writes text in quotes: model = "demo"'
        ) from error
    tables = parsed.pop("plugins", {})
    for key in parsed:
        if key not in ServerSettings.model_fields:
            known = [*ServerSettings.model_fields, "plugins"]
            hint = did_you_mean(key, known, "tf-serve --print-settings lists the keys")
            raise SettingsError(f"{name}: {key} is no setting\nhint: {hint}")
    if parsed.get("drafter") == "":  # what the settings write for the drafter that goes with the model
        expected = word(ServerSettings.model_fields["drafter"], "expected")
        raise SettingsError(f"{name}: drafter must be {expected}, not ''")
    return SettingsFile(name, parsed, _tables(name, tables))


def _tables(name: str, tables: object) -> dict[str, dict[str, Any]]:
    if not isinstance(tables, dict):
        raise SettingsError(
            f"{name}: plugins must be tables, [plugins.<name>], not {_kind(tables)}\n"
            "hint: the names of the plugins in use go in use_plugins or add_plugins"
        )
    for plugin, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsError(
                f"{name}: plugins.{plugin} must be a table, not {_kind(table)}\n"
                f"hint: write the plugin's settings below a line [plugins.{plugin}]"
            )
    return tables


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}.get(
        type(value), "a single value"
    )

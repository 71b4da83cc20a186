"""Flags over environment over file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr, ValidationError

from tf_host.settings import environment, file, flags
from tf_host.settings.fields import word
from tf_host.settings.model import ServerSettings
from tf_host.settings.origin import DEFAULT, Origin
from tf_plugins import SettingsError

Action = Literal["serve", "plugins", "print-settings", "version"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a command line asks for.

    Attributes:
        action: what to do.
        settings: the merged settings; the defaults for ``version``.
        json: whether ``plugins`` are listed as JSON.
    """

    action: Action
    settings: ServerSettings
    json: bool = False


def load(argv: Sequence[str]) -> Invocation:
    """Read all sources.

    Args:
        argv: the arguments, program name left out.

    Raises:
        SettingsError: names the flag, the variable, or the file and key at fault, and what fits there.
        SystemExit: after ``--help``.
    """
    line = flags.CommandLine()
    # Which word after --drafter is MODEL is settled once the other sources are read; until then none is refused for it.
    _, parsed = line.parse(argv, model_named=True)
    if parsed.version:
        return Invocation("version", ServerSettings())
    if parsed.json and not parsed.plugins:
        raise SettingsError("--json goes with --plugins\nhint: tf-serve --plugins --json")
    file_name = parsed.settings if parsed.settings is not None else os.environ.get(environment.FILE_VARIABLE)
    by_variable = environment.read()
    from_file = file.read(file_name) if file_name else file.SettingsFile("")
    by_flag, _ = line.parse(argv, model_named="model" in from_file.values or "model" in by_variable)

    values: dict[str, Any] = {**from_file.values, **by_variable, **by_flag}
    origins: dict[str, Origin] = {key: from_file.origin(key) for key in from_file.values}
    origins |= {key: environment.origin(key) for key in by_variable}
    origins |= {key: flags.origin(key, value) for key, value in by_flag.items()}
    try:
        settings = ServerSettings.from_sources(values, origins=origins, tables=from_file.tables, file=file_name or None)
    except ValidationError as error:
        raise SettingsError(_sentence(error, values, origins)) from error
    if settings.api_key and settings.api_key_file:
        raise SettingsError(
            f"{settings.origin('api_key')} and {settings.origin('api_key_file')} both give keys\nhint: use one of them"
        )
    action: Action = "plugins" if parsed.plugins else "print-settings" if parsed.print_settings else "serve"
    return Invocation(action, settings, parsed.json)


def _sentence(error: ValidationError, values: dict[str, Any], origins: dict[str, Origin]) -> str:
    """The first wrong value: where it came from, what fits, what was given."""
    name = str(error.errors()[0]["loc"][0])
    field = ServerSettings.model_fields[name]
    secret = SecretStr in getattr(field.annotation, "__args__", ())
    given = "" if secret else f", not {values[name]!r}"
    return f"{origins.get(name, DEFAULT)} must be {word(field, 'expected')}{given}"

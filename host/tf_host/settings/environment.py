"""Settings from ``TF_*`` variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_settings import EnvSettingsSource

from tf_host.settings.model import ServerSettings
from tf_host.settings.nearest import nearest
from tf_host.settings.origin import Origin
from tf_plugins import SettingsError

PREFIX = "TF_"
FILE_VARIABLE = "TF_SETTINGS"

# Read elsewhere, and not settings.
_OTHERS = frozenset({FILE_VARIABLE, "TF_CACHE_DIR", "TF_TEST_BACKEND"})

# TensorFlow and Terraform use the prefix too, so only a variable this close to a setting's is taken for a slip: where
# letters changed places, or nearly all of them stand in their order.
_SLIP = 0.85

_PLUGINS = "TF_PLUGINS"


def read() -> dict[str, Any]:
    """The settings given by variable, by field name; ``SettingsError`` for a misspelled one."""
    valid = {variable(field) for field in ServerSettings.model_fields} | _OTHERS
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in valid:
            continue
        if name == _PLUGINS or name.startswith(f"{_PLUGINS}_"):
            hint = "hint: a plugin's settings are a table of the settings file, [plugins.NAME]"
            raise SettingsError(f"the environment variable {name} is no setting\n{hint}")
        if near := _meant(name.removeprefix(PREFIX), [known.removeprefix(PREFIX) for known in valid]):
            raise SettingsError(f"the environment variable {name} is no setting\nhint: did you mean {PREFIX}{near}?")
    if os.environ.get("TF_API_KEY") == "":  # an unset variable of a compose file would open the server to all
        raise SettingsError("TF_API_KEY is empty\nhint: unset it to serve without a key")
    values = dict(EnvSettingsSource(ServerSettings, env_ignore_empty=True)())
    if "drafter" in values:
        values["drafter"] = _switch_or_name(values["drafter"])
    return values


def _meant(name: str, valid: Sequence[str]) -> str | None:
    """The setting that a misspelled name is of."""
    swapped = (known for known in valid if len(known) > 2 and sorted(known) == sorted(name.upper()))
    return next(swapped, None) or nearest(name, valid, _SLIP)


def _switch_or_name(value: str) -> str | bool:
    """``TF_DRAFTER``: the words of any other switch, else a name."""
    try:
        return TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return value


def variable(field: str) -> str:
    """The variable of a field."""
    return PREFIX + field.upper()


def origin(field: str) -> Origin:
    """How messages name the variable of a field."""
    return Origin("environment", variable(field))

"""A plugin's settings table, parsed by the plugin's own pydantic model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from tf_host.plugins.discover import Found
from tf_host.settings.nearest import did_you_mean
from tf_plugins import Plugin, SettingsError


def parse(found: Found, plugin: type[Plugin], table: Mapping[str, Any], file: str | None) -> BaseModel | None:
    """The plugin's settings, or ``None`` for a plugin without.

    Args:
        found: the plugin.
        plugin: its checked class.
        table: its ``[plugins.<name>]`` table, empty where there is none.
        file: the settings file, for messages.

    Raises:
        SettingsError: names the file, the dotted path, and the nearest valid key or what fits there.
        PluginError: the plugin's own model is at fault.
    """
    model = plugin.Settings
    where = f"{file}: plugins.{found.name}" if file else f"plugins.{found.name}"
    if model is None:
        if table:
            raise SettingsError(
                f"{where}.{next(iter(table))} is no setting: plugin {found.name!r} has none\n"
                f"hint: take [plugins.{found.name}] out of the file"
            )
        return None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise found.failed("import", f"{plugin.__name__}.Settings is no pydantic model", "derive it from BaseModel")
    try:
        return model.model_validate(dict(table), extra="forbid")
    except ValidationError as error:
        raise SettingsError(_sentence(error, where, found.name, model)) from error


def _sentence(error: ValidationError, where: str, name: str, model: type[BaseModel]) -> str:
    first = error.errors()[0]
    path = ".".join([where, *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        valid = _keys(model, first["loc"][:-1])
        otherwise = f"its keys are {', '.join(valid)}" if valid else f"plugin {name!r} has no settings there"
        return f"{path} is no setting\nhint: {did_you_mean(str(first['loc'][-1]), valid, otherwise)}"
    if first["type"] == "missing":
        return f"{path} is required\nhint: give it in a settings file, in the table [plugins.{name}]"
    said = first["msg"].removeprefix("Value error, ")
    field = _walk(model, first["loc"])[1]
    given = "" if field and _kinds(field.annotation) & {SecretStr, SecretBytes} else f", not {first['input']!r}"
    return f"{path}: {said[:1].lower()}{said[1:]}{given}"


def _keys(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Valid keys at ``path`` below ``model``; none where that is no model."""
    inner, field = _walk(model, path)
    if field is not None and inner not in _kinds(field.annotation):
        return []
    return [field.alias or name for name, field in inner.model_fields.items()]


def _walk(model: type[BaseModel], path: Sequence[int | str]) -> tuple[type[BaseModel], FieldInfo | None]:
    """The innermost model on the way along ``path``, and the last field passed."""
    field: FieldInfo | None = None
    for part in path:
        found = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        if found is None:
            continue  # a position in a list, or a key of a mapping
        field = found
        model = next((kind for kind in _kinds(field.annotation) if issubclass(kind, BaseModel)), model)
    return model, field


def _kinds(annotation: object) -> set[type[Any]]:
    """The classes that an annotation is made of."""
    inside = set[type[Any]]().union(*(_kinds(part) for part in get_args(annotation)))
    return inside | {annotation} if isinstance(annotation, type) and not get_args(annotation) else inside

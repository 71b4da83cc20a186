"""``--print-settings``: a settings file that says where each value came from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, SecretBytes, SecretStr

from tf_host.settings.model import ServerSettings


def show(settings: ServerSettings, plugins: Mapping[str, BaseModel]) -> str:
    """The merged settings as TOML, a comment after each value.

    What is not set, and what is secret, is commented out: the text read back gives the same settings, without keys.

    Args:
        settings: the merged settings.
        plugins: each plugin's parsed settings, by plugin name; plugins without settings left out.
    """
    lines = [_line(name, getattr(settings, name), str(settings.origin(name))) for name in type(settings).model_fields]
    for name, table in plugins.items():
        lines += ["", *_table(settings, name, table)]
    return "\n".join(lines) + "\n"


def _table(settings: ServerSettings, name: str, table: BaseModel) -> Iterator[str]:
    given = settings.plugin_tables.get(name, {})
    yield f"[plugins.{name}]"
    for key in type(table).model_fields:
        origin = f"{settings.file}: plugins.{name}.{key}" if key in given else "default"
        yield _line(key, getattr(table, key), origin)


def _line(name: str, value: object, origin: str) -> str:
    if isinstance(value, SecretStr | SecretBytes):
        text = f"# {name} is hidden"
    elif value is None:
        text = f"# {name} is not set"
    elif name == "drafter" and value == "":
        text = f"{name} = true"
    else:
        text = f"{name} = {_toml(value)}"
    return f"{text:<48}  # {origin}"


def _toml(value: object) -> str:
    if isinstance(value, SecretStr | SecretBytes):
        return '"**********"'
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, tuple | list | set | frozenset):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, BaseModel):
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(str(value), ensure_ascii=False)

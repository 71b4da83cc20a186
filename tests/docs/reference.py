"""What the reference pages have to say, from the docstrings and fields that they are about.

``python -m tests.docs.reference`` writes it into the pages; a test compares.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tests.docs.pages import DOCS, set_part
from tf_host.settings import ServerSettings
from tf_host.settings.environment import variable
from tf_host.settings.fields import word
from tf_host.settings.origin import flag
from tf_plugins import errors, hookspecs, types

SPEC = "tf_plugins_spec"

OBSERVERS = ("round_done", "stream_done")


def parts() -> Mapping[tuple[Path, str], Callable[[], str]]:
    """The generated parts: page, name, and what makes it."""
    reference = DOCS / "reference"
    return {
        (reference / "hooks.md", "hooks"): hooks,
        (reference / "types.md", "types"): all_types,
        (reference / "types.md", "errors"): all_errors,
        (reference / "settings.md", "server settings"): server_settings,
        (reference / "settings.md", "plugin settings"): plugin_settings,
    }


def hook_functions() -> dict[str, Callable[..., Any]]:
    """The hooks, in the order of ``tf_plugins.hookspecs``."""
    return {name: function for name, function in vars(hookspecs).items() if hasattr(function, SPEC)}


def signature(function: Callable[..., Any]) -> str:
    """A signature as the source writes it."""
    found = inspect.signature(function)
    parameters = [p.replace(annotation=_plain(p.annotation)) for p in found.parameters.values() if p.name != "self"]
    text = ", ".join(str(p).replace("'", "") for p in parameters)
    returns = found.return_annotation
    return f"{function.__name__}({text})" + (f" -> {_plain(returns)}" if returns is not inspect.Signature.empty else "")


def hooks() -> str:
    """A section a hook: its signature, its kind, its docstring."""
    return "".join(_hook(name, function) for name, function in hook_functions().items())


def _hook(name: str, function: Callable[..., Any]) -> str:
    first = getattr(function, SPEC)["firstresult"]
    kind = "Observer" if name in OBSERVERS else "Decider: the first answer counts" if first else "Collector"
    return f"\n## `{signature(function)}`\n\n*{kind}.* {docstring(function)}\n"


def all_types() -> str:
    """A section a type: its docstring, then its methods or fields."""
    return "".join(_type(name, getattr(types, name)) for name in types.__all__)


def _type(name: str, kind: Any) -> str:
    if not inspect.isclass(kind):
        return ""
    lines = [f"\n## {name}\n", docstring(kind)]
    if dataclasses.is_dataclass(kind):
        lines.append("\n```python")
        lines += [_field(field) for field in dataclasses.fields(kind)]
        lines.append("```")
    else:
        lines += _members(kind)
    return "\n".join(lines) + "\n"


def _field(field: dataclasses.Field[Any]) -> str:
    text = f"{field.name}: {field.type}"
    default = field.default
    if default is dataclasses.MISSING:
        factory = field.default_factory
        return text if factory is dataclasses.MISSING else f"{text} = {factory()!r}"
    return f"{text} = {default.__name__ if isinstance(default, type) else repr(default)}"


def all_errors() -> str:
    """A section an error: its docstring."""
    return "".join(f"\n### {name}\n\n{docstring(getattr(errors, name))}\n" for name in errors.__all__)


def _members(kind: type) -> Iterator[str]:
    """Attributes, then methods, of a protocol."""
    comments = _comments(kind)
    for name, annotation in inspect.get_annotations(kind).items():
        yield f"\n### `{name}: {annotation}`\n"
        if name in comments:
            yield comments[name]
    for name, member in vars(kind).items():
        if isinstance(member, property):
            assert member.fget is not None
            returns = _plain(inspect.signature(member.fget).return_annotation)
            yield f"\n### `{name}: {returns}`\n\n{docstring(member.fget)}"
        elif inspect.isfunction(member) and not name.startswith("_"):
            yield f"\n### `{signature(member)}`\n\n{docstring(member)}"


def _comments(kind: type) -> dict[str, str]:
    """The string that follows an attribute in the source."""
    found = re.findall(r'^    (\w+): [^\n]+\n    """(.+?)"""$', inspect.getsource(kind), re.M | re.S)
    return {name: _marked(text) for name, text in found}


def server_settings() -> str:
    """A row a setting."""
    lines = ["\n| key, flag and variable | value | default | what |", "| --- | --- | --- | --- |"]
    lines += [_setting(name, field) for name, field in ServerSettings.model_fields.items()]
    return "\n".join(lines) + "\n"


def _setting(name: str, field: FieldInfo) -> str:
    option = flag(name)
    flags = f"`{option}`, `--no-{option[2:]}`" if word(field, "expected") == "true or false" else f"`{option}`"
    names = f"`{name}`<br>{flags}<br>`{variable(name)}`"
    return f"| {names} | {_cell(word(field, 'expected'))} | {_default(field)} | {_cell(field.description)} |"


def plugin_settings() -> str:
    """A table a plugin of this distribution, those without settings named."""
    return "".join(_plugin(name, plugin) for name, plugin in built_in_plugins().items())


def built_in_plugins() -> dict[str, Any]:
    """The classes of this distribution's plugins, by name."""
    ours = [e for e in entry_points(group="tf_plugins") if e.dist is None or e.dist.name == "tf-plugins"]
    return {entry.name: entry.load() for entry in sorted(ours, key=lambda entry: entry.name)}


def _plugin(name: str, plugin: Any) -> str:
    model: type[BaseModel] | None = plugin.Settings
    if model is None:
        return f"\n### `[plugins.{name}]`\n\nThe plugin `{name}` has no settings.\n"
    rows = [
        f"| `{key}` | {_default(field)} | {_cell(field.description)} |" for key, field in model.model_fields.items()
    ]
    return "\n".join([f"\n### `[plugins.{name}]`\n", "| key | default | what |", "| --- | --- | --- |", *rows]) + "\n"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), ""):
        return "not set"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").rstrip(".").replace("``", "`")


def docstring(thing: Any) -> str:
    """A docstring as Markdown: an example becomes a block, attributes and arguments become lists."""
    text, _, example = (inspect.getdoc(thing) or "").partition("\nExample:\n")
    text = _marked(text)
    for title in ("Attributes", "Args", "Raises", "Returns"):
        text = text.replace(f"\n{title}:\n", f"\n{title}:\n\n")
    text = re.sub(r"^    (\S[^:\n]*): ", r"- `\1`: ", text, flags=re.M)
    text = re.sub(r"^    (?=    \S)", "", text, flags=re.M)
    text = re.sub(r"\n {3,}(?=\S)", "\n  ", text)
    return f"{text.rstrip()}\n\n```python\n{inspect.cleandoc(example)}\n```" if example else text.rstrip()


def _marked(text: str) -> str:
    return inspect.cleandoc(text).replace("``", "`")


def _plain(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


if __name__ == "__main__":
    for (page, name), make in parts().items():
        set_part(page, name, make())

"""Tool definitions and choices of a chat request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tf_host.http.errors import refuse
from tf_host.http.fields import MOST_DEPTH, Part, all_finite, known, too_deep, wrong
from tf_host.text import Text, ToolFormat

MOST_TOOLS = 128


def _parameters(value: dict[str, Any]) -> dict[str, Any]:
    if too_deep(value):
        raise wrong(f"the schema is nested deeper than {MOST_DEPTH} levels; flatten it, or use $defs")
    if not all_finite(value):
        raise wrong("the schema has a number that is not finite; send another, or leave it out")
    return value


class FunctionBody(Part):
    """A function that the model may call."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")
    description: str | None = None
    parameters: Annotated[dict[str, Any], AfterValidator(_parameters)] | None = Field(None, description="a JSON schema")
    strict: bool | None = None


class ToolBody(Part):
    """A tool; only functions are."""

    type: Literal["function"]
    function: FunctionBody


class NamedFunction(Part):
    """The function of a tool choice."""

    name: str


class NamedTool(Part):
    """The choice of one function."""

    type: Literal["function"]
    function: NamedFunction


def _choice(value: Any) -> Any:
    if value is None or value in ("none", "auto", "required"):
        return value
    named = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    if isinstance(named, dict) and isinstance(named.get("name"), str):
        return value
    raise wrong("'tool_choice' must be none, auto, required, or {'type': 'function', 'function': {'name': ...}}")


Choice = Annotated[
    Literal["none", "auto", "required"] | NamedTool | None,
    BeforeValidator(_choice, json_schema_input_type=Literal["none", "auto", "required"] | NamedTool | None),
]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a request whose reply may hold calls.

    Attributes:
        form: how the model writes calls.
        definitions: the tools, as templates read them.
        most: calls that the reply may hold, or ``None`` for any number.
        forced: names of which one has to be called; empty where the model decides.
    """

    form: ToolFormat
    definitions: tuple[dict[str, Any], ...]
    most: int | None = None
    forced: tuple[str, ...] = ()


def tool_use(
    text: Text, tools: Sequence[ToolBody] | None, choice: str | NamedTool | None, parallel: bool | None
) -> ToolUse | None:
    """What a request's tools come to; ``None`` where its reply holds no calls.

    Raises:
        Refused: a choice that cannot be honoured.
    """
    names = [tool.function.name for tool in tools or ()]
    if len(names) > MOST_TOOLS:
        raise refuse("invalid_value", f"'tools' has more than {MOST_TOOLS} tools", "send fewer", param="tools")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise refuse("invalid_value", f"'tools' has two tools named '{twice}'", "rename one", param="tools")
    forced: tuple[str, ...] = ()
    if choice == "required":
        forced = tuple(names)
    elif isinstance(choice, NamedTool):
        forced = tuple(name for name in names if name == choice.function.name)
    if (choice == "required" or isinstance(choice, NamedTool)) and not names:
        reason = "'tool_choice' asks for a call, and 'tools' is missing or empty"
        raise refuse("invalid_value", reason, "send the tools, or use auto", param="tool_choice")
    if isinstance(choice, NamedTool) and not forced:
        reason = f"'tool_choice' names {choice.function.name[:80]!r}, which is not in 'tools'"
        hint = f"name one of: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
        raise refuse("invalid_value", reason, hint, param="tool_choice")
    if forced and text.tools is None:
        raise refuse(
            "unsupported_parameter",
            "'tool_choice' asks for a call, and this model's chat template takes no tools",
            "leave the tools out, or serve a model whose template takes them",
            param="tool_choice",
        )
    if forced and text.tools and text.tools.arguments is None:
        raise refuse(
            "unsupported_parameter",
            "'tool_choice' can be required or name a tool only where the model writes calls as JSON",
            "use auto",
            param="tool_choice",
        )
    if not tools or choice == "none" or text.tools is None:
        return None
    definitions = tuple(map(known, tools))
    one = forced or parallel is False or text.tools.single
    return ToolUse(text.tools, definitions, 1 if one else None, forced)

"""The constraint of one reply, from its body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tf_host.http.completion_body import CompletionBody
from tf_host.http.errors import refuse
from tf_host.http.grammar_body import constraint_of
from tf_host.http.schemas import moved_schema
from tf_host.http.server import Served
from tf_host.http.thinking_body import ThinkingBody
from tf_host.http.tools_body import ToolUse
from tf_host.requests.request import Grammar
from tf_host.text import ChatPrompt, Constraint, Text, ThinkingGate, call_grammar

MakeGrammar = Callable[[], Grammar]


def completion_grammar(served: Served, body: CompletionBody) -> MakeGrammar | None:
    """The constraint of a completion, compiled; ``Refused`` for one that cannot be."""
    constraint = constraint_of(body)
    if constraint is None:
        return None
    run = served.text.grammars.compile(constraint)
    return lambda: run


def chat_grammar(served: Served, body: ThinkingBody, prompt: ChatPrompt, tools: ToolUse | None) -> MakeGrammar | None:
    """The constraint of a chat reply, compiled; it begins where the reasoning ends."""
    text = served.text
    constraint, instead = constraint_of(body), None
    if tools is not None and tools.forced:
        _check_forced(constraint)
        constraint = _calls(text, tools)
    elif tools is not None and constraint is not None:
        _check_beside_tools(constraint, tools)
        instead = _calls(text, tools)
    budget = body.thinking_budget if text.thinking is not None else None
    inner = text.grammars.compile(constraint, instead) if constraint else None
    if text.thinking is None or prompt.phase == "closed" or (inner is None and budget is None):
        return None if inner is None else lambda: inner
    gate = ThinkingGate(text.thinking, prompt.phase, inner, budget=budget, ends=text.end_ids, vocab=served.vocab)
    return lambda: gate


def _check_forced(constraint: Constraint | None) -> None:
    """``response_format`` is about the text of an answer, and yields to a call; the others are about any reply."""
    if constraint is not None and constraint.param != "response_format":
        raise refuse(
            "invalid_value",
            f"'tool_choice' and '{constraint.param}' constrain one reply",
            "send one of them",
            param="tool_choice",
        )


def _check_beside_tools(constraint: Constraint, tools: ToolUse) -> None:
    if tools.form.arguments is None:
        raise refuse(
            "unsupported_parameter",
            f"'tools' and '{constraint.param}' go together only where the model writes calls as JSON",
            "send one of them, or 'tool_choice': 'none'",
            param=constraint.param,
        )


def _calls(text: Text, tools: ToolUse) -> Constraint:
    """As many calls as the reply may hold, at least one."""
    form = tools.form
    assert form.arguments is not None  # checked, here or where the choice was read
    functions = [tool["function"] for tool in tools.definitions]
    possible = [function for function in functions if not tools.forced or function["name"] in tools.forced]
    schemas = [_call_schema(function, form.arguments, at) for at, function in enumerate(possible)]
    marks = {mark: text.control_id(mark) for mark in (form.start, form.end)}
    special = {mark: token for mark, token in marks.items() if token is not None}
    between = form.between if tools.most is None else None
    return Constraint("call", call_grammar(form.start, form.end, schemas, special, between), "tools")


def _call_schema(function: dict[str, Any], arguments: str, at: int) -> dict[str, Any]:
    """The schema of a call, to be the choice ``at`` of a grammar's."""
    parameters = function.get("parameters") or {"type": "object"}
    return {
        "type": "object",
        "properties": {
            "name": {"const": function["name"]},
            arguments: moved_schema(parameters, f"#/anyOf/{at}/properties/{arguments}"),
        },
        "required": ["name", arguments],
        "additionalProperties": False,
    }

"""Fields of a request that changed nothing."""

from __future__ import annotations

from collections.abc import Collection

from tf_host.http.chat_body import ChatBody
from tf_host.http.fields import unread
from tf_host.http.grammar_body import constraint_of
from tf_host.http.tokens_body import TokenizeBody
from tf_host.http.tools_body import ToolUse
from tf_host.text import ChatPrompt, Text


def ignored_in_chat(text: Text, body: ChatBody, tools: ToolUse | None, prompt: ChatPrompt) -> list[str]:
    """Unknown fields by their path, and known ones that mean nothing to this model."""
    found = _ignored(body, prompt)
    if body.tools and tools is None and body.tool_choice != "none":
        found.add("tools")
    # A call that the model may make, or not, is not constrained.
    if body.tool_choice != "none" and not (tools and (tools.forced or constraint_of(body))):
        strict = (at for at, tool in enumerate(body.tools or ()) if tool.function.strict)
        found.update(f"tools[{at}].function.strict" for at in strict)
    if tools is not None and tools.form.single and body.parallel_tool_calls:
        found.add("parallel_tool_calls")
    if tools is not None and tools.forced and constraint_of(body) is not None:
        found.add("response_format")
    if body.reasoning_effort is not None and not _some_read(body.effort, prompt):
        found.add("reasoning_effort")
    if body.thinking_budget is not None and text.thinking is None:
        found.add("thinking_budget")
    return sorted(found)


def ignored_in_tokenize(body: TokenizeBody, tools: ToolUse | None, prompt: ChatPrompt | None) -> list[str]:
    """The same of ``/tokenize``."""
    found = set(unread(body)) if prompt is None else _ignored(body, prompt)
    if body.tools and tools is None:
        found.add("tools")
    return sorted(found)


def _ignored(body: ChatBody | TokenizeBody, prompt: ChatPrompt) -> set[str]:
    variables = set(prompt.unread_variables).intersection(body.chat_template_kwargs)
    return {*unread(body), *prompt.unread_fields, *(f"chat_template_kwargs.{name}" for name in variables)}


def _some_read(variables: Collection[str], prompt: ChatPrompt) -> bool:
    return not set(variables) <= set(prompt.unread_variables)

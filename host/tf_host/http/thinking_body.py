"""Template variables and the length of the reasoning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tf_host.http.fields import MOST_DEPTH, Whole, all_finite, too_deep, wrong
from tf_host.http.grammar_body import GrammarBody

_RESERVED = frozenset(
    {
        "messages",
        "conversation",
        "conversations",
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "sanitize_control_tokens",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
        "tokenizer_kwargs",
        "self",
    }
)
"""Parameters of the renderer, which are no template variables."""


def _variables(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong("'chat_template_kwargs' must be an object")
    for name in value:
        if not name.isidentifier() or name.startswith("_") or name in _RESERVED:
            raise wrong(
                f"'chat_template_kwargs' has the name {name[:80]!r}, which is no template variable; leave it out"
            )
    if too_deep(value):
        raise wrong(f"'chat_template_kwargs' is nested deeper than {MOST_DEPTH} levels; flatten it")
    if not all_finite(value):
        raise wrong("'chat_template_kwargs' has a number that is not finite; send another, or null")
    return value


Variables = Annotated[dict[str, Any], BeforeValidator(_variables, json_schema_input_type=dict[str, Any] | None)]


class ThinkingBody(GrammarBody):
    """How long a model thinks, where it does."""

    chat_template_kwargs: Variables = Field(
        {}, description="variables of the chat template, for example enable_thinking"
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = Field(
        None, description="a variable of the chat template; none also sets enable_thinking to false"
    )
    thinking_budget: Whole | None = Field(None, ge=0, description="most reasoning tokens")

    @property
    def effort(self) -> dict[str, Any]:
        """The template's variables that ``reasoning_effort`` sets."""
        if self.reasoning_effort is None:
            return {}
        off = {"enable_thinking": False} if self.reasoning_effort == "none" else {}
        return {"reasoning_effort": self.reasoning_effort} | off

    @property
    def variables(self) -> dict[str, Any]:
        """The template's variables."""
        return self.effort | self.chat_template_kwargs

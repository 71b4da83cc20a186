"""``POST /tokenize`` and ``POST /detokenize``, with vLLM's fields."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tf_host.http.chat_body import MessageBody
from tf_host.http.fields import Body, wrong
from tf_host.http.prepare import chat_prompt, check_length, checked_ids, served_name
from tf_host.http.server import Served
from tf_host.http.thinking_body import Variables
from tf_host.http.tools_body import ToolBody, tool_use


def _ids(value: Any) -> Any:
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise wrong("'tokens' must be a list of token ids")
    return tuple(value)


class TokenizeBody(Body):
    """A text, or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[MessageBody] | None = None
    tools: list[ToolBody] | None = None
    chat_template_kwargs: Variables = Field({})
    add_generation_prompt: bool | None = None
    add_special_tokens: bool = Field(True, description="add what the model wants at the start of a text")
    return_token_strs: bool | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise wrong("either 'prompt' or 'messages' is needed", param="prompt")
        for name in ("tools", "chat_template_kwargs", "add_generation_prompt"):
            if self.messages is None and getattr(self, name) not in (None, {}):
                raise wrong(f"'{name}' needs 'messages'; a prompt goes through no template", param=name)
        return self


class DetokenizeBody(Body):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[tuple[int, ...], BeforeValidator(_ids, json_schema_input_type=list[int])]


def tokenize(served: Served, body: TokenizeBody) -> dict[str, Any]:
    """The tokens that a request with this prompt would have."""
    served_name(served, body.model)
    if body.messages is not None:
        tools = tool_use(served.text, body.tools, None, None)
        whole = body.add_generation_prompt is not False
        ids = list(
            chat_prompt(served, body.messages, tools, body.chat_template_kwargs, add_generation_prompt=whole).ids
        )
    else:
        check_length(served, body.prompt or "", "prompt")
        ids = served.text.encode(body.prompt or "", start=body.add_special_tokens)
    names = [served.text.name(token) for token in ids] if body.return_token_strs else None
    return {"count": len(ids), "max_model_len": served.context, "tokens": ids, "token_strs": names}


def detokenize(served: Served, body: DetokenizeBody) -> dict[str, str]:
    """The text of tokens."""
    served_name(served, body.model)
    if not body.tokens:
        return {"prompt": ""}
    return {"prompt": served.text.decode(checked_ids(body.tokens, served.vocab, "tokens"))}

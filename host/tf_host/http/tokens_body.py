"""The bodies of ``POST /tokenize`` and ``POST /detokenize``, with vLLM's fields."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tf_host.http.chat_body import MessageBody
from tf_host.http.fields import Body, wrong
from tf_host.http.thinking_body import Variables
from tf_host.http.tools_body import ToolBody


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
    add_special_tokens: bool | None = Field(None, description="add what the model wants at the start of a prompt")
    return_token_strs: bool | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.prompt is None and self.messages is None:
            raise wrong("'prompt' or 'messages' is missing; send one of them", param="prompt")
        if self.prompt is not None and self.messages is not None:
            raise wrong("'prompt' and 'messages' cannot be sent together; send one of them", param="prompt")
        if self.messages is not None and self.add_special_tokens:
            reason = "'add_special_tokens' needs 'prompt'; a conversation's special tokens are the template's"
            raise wrong(reason, param="add_special_tokens")
        for name in ("tools", "chat_template_kwargs", "add_generation_prompt"):
            if self.messages is None and getattr(self, name) not in (None, {}):
                raise wrong(f"'{name}' needs 'messages'; a prompt goes through no template", param=name)
        return self


class DetokenizeBody(Body):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[tuple[int, ...], BeforeValidator(_ids, json_schema_input_type=list[int])]

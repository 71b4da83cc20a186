"""The body of ``POST /v1/completions``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from tf_host.http.fields import wrong
from tf_host.http.grammar_body import GrammarBody

MOST_LOGPROBS = 20


def _prompt(value: Any) -> Any:
    several = isinstance(value, list) and all(isinstance(one, str | list) for one in value)
    if several and len(value) == 1:
        value, several = value[0], False
    if isinstance(value, str):
        return value
    if value == []:
        raise wrong("'prompt' is empty", "empty_prompt")
    if isinstance(value, list) and all(type(token) is int for token in value):
        return tuple(value)
    if several:
        raise wrong("'prompt' with several prompts is not served; send one request for each", "unsupported_parameter")
    raise wrong("'prompt' must be a string or a list of token ids")


def _logprobs(value: Any) -> Any:
    if value is not None and (type(value) is not int or not 0 <= value <= MOST_LOGPROBS):
        raise wrong(f"'logprobs' must be a whole number from 0 to {MOST_LOGPROBS}")
    return value


class CompletionBody(GrammarBody):
    """A text to continue."""

    prompt: Annotated[
        str | tuple[int, ...],
        BeforeValidator(_prompt, json_schema_input_type=str | list[int] | list[str] | list[list[int]]),
    ] = Field(description="a text, whose control tokens are parsed, or token ids")
    logprobs: Annotated[int | None, BeforeValidator(_logprobs, json_schema_input_type=int | None)] = Field(
        None, description="report log probabilities, with this many alternatives"
    )

"""The fields that chat and completions share."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tf_host.http.fields import Body, LogitBias, Number, Part, Seed, Stops, Whole, unread, wrong


def _stop_token_ids(value: Any) -> Any:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(token) is int and token >= 0 for token in value):
        raise wrong("'stop_token_ids' must be a list of token ids")
    return tuple(value)


class StreamOptions(Part):
    """How a reply is streamed."""

    include_usage: bool | None = None


class SamplingBody(Body):
    """How a reply is drawn, where it ends and what is reported of it. ``null`` is the server's default."""

    model: str | None = Field(None, description="a name from /v1/models; by default the served model")
    max_tokens: Whole | None = Field(None, ge=1, description="most reply tokens; by default what the context leaves")
    temperature: Number | None = Field(None, ge=0, le=100, description="0 is greedy")
    top_p: Number | None = Field(None, gt=0, le=1, description="1 is off")
    top_k: Whole | None = Field(None, ge=-1, description="0, -1 and numbers past the vocabulary are off")
    min_p: Number | None = Field(None, ge=0, le=1, description="0 is off")
    repetition_penalty: Number | None = Field(None, ge=0.01, le=100, description="over prompt and reply; 1 is off")
    presence_penalty: Number | None = Field(None, ge=-2, le=2, description="over the reply; 0 is off")
    frequency_penalty: Number | None = Field(None, ge=-2, le=2, description="over the reply; 0 is off")
    logit_bias: LogitBias = Field({}, description="numbers from -100 to 100 by token id, added to the logits")
    seed: Seed = Field(None, description="one is drawn, and returned, when it is left out")
    stop: Stops = Field((), description="the text ends before the first of these")
    stop_token_ids: Annotated[
        tuple[int, ...], BeforeValidator(_stop_token_ids, json_schema_input_type=list[int] | None)
    ] = Field((), description="tokens that end the reply, beside the model's own end tokens")
    ignore_eos: bool | None = Field(None, description="go on past the model's end tokens")
    draft: bool | None = Field(None, description="false: no drafts for this reply; it is the same either way")
    stream: bool | None = Field(None, description="send the reply as server-sent events")
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = Field(None, description="report the reply's token ids and their sources")

    @model_validator(mode="after")
    def _streams(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise wrong("'stream_options' needs 'stream': true", param="stream_options")
        return self

    @property
    def ignored(self) -> list[str]:
        """Paths of the fields that nothing here reads."""
        return sorted(unread(self))

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk for the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

"""The official client against the server."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.host.http.conftest import World


@pytest.fixture
def client(world: World) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{world.url}/v1", api_key="none", max_retries=0) as made:
        yield made


HI = [{"role": "user", "content": "hi"}]


def test_chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="tiny", messages=HI, seed=3, logprobs=True, top_logprobs=2)
    assert reply.choices[0].message.content == "Hello, world! once upon a time"
    assert reply.choices[0].logprobs is not None
    assert len(reply.choices[0].logprobs.content) == reply.usage.completion_tokens
    assert reply.system_fingerprint == "fp_test"
    assert reply.tf["seed"] == 3


def test_chat_streamed(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny", messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello, world! once upon a time"
    assert chunks[-1].usage.completion_tokens > 0


def test_a_stream_with_comments(world: World, client: openai.OpenAI) -> None:
    world.says("hello", reading=2, pause=0.01)
    stream = client.chat.completions.create(model="tiny", messages=HI, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "hello"


def test_completions(client: openai.OpenAI) -> None:
    reply = client.completions.create(model="tiny", prompt=[74, 75], max_tokens=3, logprobs=2, stop=["nothing"])
    assert reply.choices[0].finish_reason == "length"
    assert len(reply.choices[0].logprobs.tokens) == 3
    assert "".join(c.choices[0].text for c in client.completions.create(model="tiny", prompt="hi", stream=True))


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "org/alias"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_errors(world: World, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=HI, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError, match="tiny"):
        client.chat.completions.create(model="gpt-4", messages=HI)
    world.says("Hello, world! once upon a time", fail_after=4)
    with pytest.raises(openai.APIError, match="the forward failed"):
        list(client.chat.completions.create(model="tiny", messages=HI, stream=True))

"""One reply: what was read of it, and when it equals another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.fakes.openai_server import FakeServer, Script, serving
from tf_host.bench.client import BenchError, Client
from tf_host.bench.prompts import Prompt
from tf_host.bench.reply import Reply, equal

PROMPT = Prompt("p", "chat", messages=({"role": "user", "content": "Hi {n}"},))
RAW = Prompt("r", "completion", text="Hi {n}")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer()) as running:
        yield running


def ask(server: FakeServer, script: Script, prompt: Prompt = PROMPT, *, greet: bool = False) -> Reply:
    async def once() -> Reply:
        client = Client(server.url, model="fake", timeout=5.0)
        try:
            if greet:
                await client.greet()
            return await client.send(prompt, 1, tokens=9, temperature=0.0, seed=4)
        finally:
            await client.close()

    server.answer = lambda body: script
    return asyncio.run(once())


@pytest.mark.parametrize("prompt", [PROMPT, RAW])
def test_a_whole_reply(server: FakeServer, prompt: Prompt) -> None:
    reply = ask(server, Script(ids=[5, 6, 7, 8], sizes=(2,), step=0.05, wait=0.1, tf={"rounds": 3}), prompt)
    assert (reply.ids, reply.text, reply.finish, reply.counted) == ([5, 6, 7, 8], "<5><6><7><8>", "stop", 4)
    assert reply.whole
    assert reply.problem is None
    assert reply.tf == {"rounds": 3}
    assert reply.seconds > 0.2
    assert reply.first_tokens == 2
    assert 0.3 * 2 / 0.1 < (reply.rate or 0) < 1.5 * 2 / 0.1  # the tokens after the first ones, and the time they took


def test_what_is_sent(server: FakeServer) -> None:
    ask(server, Script())
    [body] = server.bodies
    assert body["messages"] == [{"role": "user", "content": "Hi 1"}]
    assert body["stream_options"] == {"include_usage": True}
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("fake", 9, 0.0, 4)
    assert body["return_token_ids"] is True
    assert "ignore_eos" not in body


def test_without_ids_tokens_are_what_usage_counts(server: FakeServer) -> None:
    server.gives_ids = False
    reply = ask(server, Script(ids=[5, 6, 7], step=0.02, counted=4))
    assert (reply.ids, reply.tokens, reply.whole) == (None, 4, True)
    assert reply.rate is not None


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (Script(finish=None), "cut off: the stream ended without a finish reason"),
        (Script(cut=2), "RemoteProtocolError"),
        (Script(cut=0), "RemoteProtocolError"),
        (Script(status=503), "HTTP 503: no"),
        (Script(error="the engine failed"), "the engine failed"),
        (Script(counted=5), "cut off: 3 ids of 5 tokens"),
        (Script(ids=[]), "no tokens came"),
    ],
)
def test_a_reply_that_is_not_whole_says_why_has_no_rate_and_equals_nothing(
    server: FakeServer, script: Script, problem: str
) -> None:
    reply = ask(server, script)
    assert not reply.whole
    assert (reply.problem or "").startswith(problem)
    assert reply.rate is None
    assert not equal(reply, reply)
    assert not equal(reply, replace(reply))


def test_a_server_that_is_not_there_is_a_failed_reply() -> None:
    reply = ask(FakeServer(url="http://127.0.0.1:9"), Script())
    assert (reply.problem or "").startswith("ConnectError")


WHOLE = Reply(first=1.0, last=2.0, ended=2.0, text="ab", ids=[1, 2], finish="stop", counted=2)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (WHOLE, True),
        (replace(WHOLE, ids=None), True),  # by text, where one has no ids
        (replace(WHOLE, ids=None, text="abc"), False),
        (replace(WHOLE, ids=[1, 3]), False),  # the same text from other tokens is not the same reply
        (replace(WHOLE, ids=[1, 2, 3], counted=3), False),
        (replace(WHOLE, finish="length"), False),
        (replace(WHOLE, finish=None), False),
        (replace(WHOLE, error="failed after its end"), False),
        (replace(WHOLE, ids=[1]), False),
        (replace(WHOLE, first=None), False),
        (None, False),
    ],
)
def test_replies_are_equal_only_when_both_are_whole_and_the_same(other: Reply | None, same: bool) -> None:
    assert equal(WHOLE, other) is same
    assert equal(other, WHOLE) is same


def test_a_server_that_refuses_the_extra_field_is_asked_without(server: FakeServer) -> None:
    server.refuses = "return_token_ids"
    assert ask(server, Script(), greet=True).whole
    assert "return_token_ids" not in server.bodies[-1]


def test_a_server_that_lists_no_model_or_is_not_there_ends_the_bench() -> None:
    async def greet(url: str) -> None:
        client = Client(url)
        try:
            await client.greet()
        finally:
            await client.close()

    with pytest.raises(BenchError, match="is it running"):
        asyncio.run(greet("http://127.0.0.1:9/v1"))

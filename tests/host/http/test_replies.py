"""Whole and streamed replies say the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest

from tests.fakes.scripted_engine import Script
from tests.host.http.conftest import World
from tf_host.text import Text
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

STOP_TEXT = "the quick brown fox jumps over the lazy dog"


def events(answer: httpx.Response) -> list[Any]:
    """The data of each event, parsed; the last one must be ``[DONE]``."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    data = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    assert data.count("[DONE]") == 1
    return [json.loads(one) for one in data[:-1]]


def choices(chunks: list[Any]) -> list[Any]:
    return [choice for chunk in chunks for choice in chunk["choices"]]


def joined(parts: list[Any], name: str) -> list[Any]:
    return [one for part in parts for one in part.get(name, [])]


def test_chat_whole(world: World, text: Text) -> None:
    reply = world.chat(return_token_ids=True).json()
    ids = [*text.encode("Hello, world! once upon a time", special=False), 0]
    choice = reply["choices"][0]
    assert reply["object"] == "chat.completion"
    assert reply["system_fingerprint"] == "fp_test"
    assert reply["model"] == "tiny"
    assert choice["message"] == {"role": "assistant", "content": "Hello, world! once upon a time"}
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"] == ids  # the end token is the last
    assert choice["sources"][:2] == ["target", "copy"]
    assert len(choice["sources"]) == len(ids)
    assert reply["prompt_token_ids"] == list(world.engine.requests[-1].prompt)
    assert reply["usage"] == {
        "prompt_tokens": len(reply["prompt_token_ids"]),
        "completion_tokens": len(ids),
        "total_tokens": len(reply["prompt_token_ids"]) + len(ids),
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_the_tf_block(world: World, text: Text) -> None:
    world.says("Hello, world!", cached=7)
    reply = world.chat(return_token_ids=True, seed=12, max_tokens=3, nonsense=1).json()
    ids = reply["choices"][0]["token_ids"]
    tf = reply["tf"]
    assert tf["request_id"] == reply["id"] == world.engine.requests[-1].id
    assert tf["seed"] == 12
    assert tf["token_sha"] == hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
    assert tf["cached_tokens"] == reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 7
    assert (tf["rounds"], tf["drafted"], tf["accepted"]) == (1, 1, 1)
    assert tf["sources"] == {"copy": {"drafted": 1, "accepted": 1}}
    assert tf["ignored"] == ["nonsense"]
    assert set(tf["timings"]) == {"queued_s", "prompt_s", "decode_s", "tokens_per_second"}
    assert reply["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("fields", [{}, {"logprobs": True, "top_logprobs": 3}, {"stop": "upon"}, {"max_tokens": 4}])
def test_chat_streamed_equals_whole(world: World, fields: dict[str, Any]) -> None:
    whole = world.chat(seed=1, return_token_ids=True, **fields).json()
    chunks = events(world.chat(seed=1, return_token_ids=True, stream=True, **fields))
    parts = choices(chunks)
    assert parts[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(part["delta"].get("content", "") for part in parts) == whole["choices"][0]["message"]["content"]
    assert joined(parts, "token_ids") == whole["choices"][0]["token_ids"]
    assert joined(parts, "sources") == whole["choices"][0]["sources"]
    reasons = [part["finish_reason"] for part in parts]
    assert reasons[:-1] == [None] * (len(parts) - 1)
    assert reasons[-1] == whole["choices"][0]["finish_reason"]
    if "logprobs" in fields:
        entries = [entry for part in parts if part["logprobs"] for entry in part["logprobs"]["content"]]
        assert entries == whole["choices"][0]["logprobs"]["content"]
        assert len(entries) == whole["usage"]["completion_tokens"]
    assert [chunk for chunk in chunks if "tf" in chunk] == chunks[-1:]
    assert chunks[-1]["tf"]["token_sha"] == whole["tf"]["token_sha"]
    assert {chunk["system_fingerprint"] for chunk in chunks} == {"fp_test"}


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2}, {"stop": ["upon"]}, {"max_tokens": 4}])
def test_completions_streamed_equal_whole(world: World, fields: dict[str, Any]) -> None:
    whole = world.complete(return_token_ids=True, **fields).json()
    parts = choices(events(world.complete(return_token_ids=True, stream=True, **fields)))
    assert "".join(part["text"] for part in parts) == whole["choices"][0]["text"]
    assert joined(parts, "token_ids") == whole["choices"][0]["token_ids"]
    assert parts[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    if "logprobs" in fields:
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            pieces = [part["logprobs"] for part in parts if part["logprobs"]]
            assert joined(pieces, name) == whole["choices"][0]["logprobs"][name]


def test_include_usage_is_a_chunk_of_its_own(world: World) -> None:
    chunks = events(world.chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert "tf" in chunks[-1]
    assert {chunk["usage"] for chunk in chunks[:-1]} == {None}
    assert all(chunk["choices"] for chunk in chunks[:-1])


@pytest.mark.parametrize("options", [{}, None, {"include_usage": False}, {"include_usage": None, "other": 1}])
def test_without_include_usage_there_is_none(world: World, options: Any) -> None:
    chunks = events(world.chat(stream=True, stream_options=options))
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


def test_chat_logprobs(world: World, text: Text) -> None:
    world.says("a🚀")
    reply = world.chat(logprobs=True, top_logprobs=2).json()
    entries = reply["choices"][0]["logprobs"]["content"]
    assert len(entries) == reply["usage"]["completion_tokens"]
    assert bytes(byte for entry in entries[:-1] for byte in entry["bytes"]).decode() == "a🚀"
    assert entries[0]["token"] == "a"
    assert entries[0]["logprob"] == -0.5
    assert [top["logprob"] for top in entries[0]["top_logprobs"]] == [-0.5, -1.5]
    assert world.chat(logprobs=True).json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    assert world.chat().json()["choices"][0]["logprobs"] is None


def test_a_probability_of_nothing_is_a_number(world: World) -> None:
    world.says("a", logprob=float("-inf"))
    assert world.chat(logprobs=True).json()["choices"][0]["logprobs"]["content"][0]["logprob"] == -9999.0


@pytest.mark.parametrize("rounds", [1, 2, 5, 50])
@pytest.mark.parametrize("stop", ["quick", "he", "the", "lazy d", "k b"])
def test_a_stop_string_cuts_whatever_the_rounds(world: World, text: Text, stop: str, rounds: int) -> None:
    world.says(STOP_TEXT, rounds=rounds)
    cut = STOP_TEXT[: STOP_TEXT.index(stop)]
    reply = world.chat(stop=stop, return_token_ids=True).json()
    choice = reply["choices"][0]
    assert choice["message"]["content"] == cut
    assert choice["finish_reason"] == "stop"
    ids = choice["token_ids"]
    assert stop in text.decode(ids)
    assert stop not in text.decode(ids[:-1])  # the token that completed it is the last
    assert reply["usage"]["completion_tokens"] == len(ids)
    seen = ""
    for part in choices(events(world.chat(stop=stop, stream=True))):
        seen += part["delta"].get("content", "")
        assert cut.startswith(seen)
    assert seen == cut


@pytest.mark.parametrize("limit", range(1, 9))
def test_max_tokens_holds_within_a_round(world: World, limit: int) -> None:
    world.says(STOP_TEXT, rounds=5)
    reply = world.complete(max_tokens=limit, return_token_ids=True).json()
    assert reply["usage"]["completion_tokens"] == len(reply["choices"][0]["token_ids"]) == limit


def test_emoji_are_streamed_whole(world: World) -> None:
    world.says("🚀🚀\u2028é", rounds=1)
    answer = world.chat(stream=True)
    assert answer.text.isascii()  # no client can take a character for the end of a line
    pieces = [part["delta"].get("content", "") for part in choices(events(answer))]
    assert "".join(pieces) == "🚀🚀\u2028é"
    assert "🚀" in pieces


def test_reading_a_prompt_keeps_the_stream_alive(world: World) -> None:
    world.says("hello", reading=3, pause=0.02)
    answer = world.chat(stream=True)
    comments = [line for line in answer.text.split("\n") if line.startswith(":")]
    assert comments == [": reading 0/3", ": reading 1/3", ": reading 2/3"]
    assert "".join(part["delta"].get("content", "") for part in choices(events(answer))) == "hello"


def test_an_error_before_the_stream_has_a_status(world: World) -> None:
    world.says("hello", fail_after=0)
    for stream in (True, False):
        answer = world.chat(stream=stream)
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "the forward failed"
        assert answer.json()["error"]["type"] == "server_error"
    world.says("hello")
    assert world.chat().status_code == 200


def test_an_error_in_the_stream_is_an_event(world: World) -> None:
    world.says("Hello, world! once upon a time", fail_after=4)
    answer = world.chat(stream=True)
    assert answer.status_code == 200
    *chunks, last = events(answer)
    assert choices(chunks)[1]["delta"]["content"]
    assert last["error"]["message"] == "the forward failed"
    assert last["error"]["code"] == "server_error"


def test_a_full_queue_is_503_with_retry_after(world: World) -> None:
    world.engine.refuse = Refused(Refusal("queue_full", "64 requests wait already", "try again", status=503))
    for stream in (True, False):
        answer = world.chat(stream=stream)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"]["code"] == "queue_full"
    world.engine.refuse = None
    assert world.chat().status_code == 200


def test_plugins_are_asked_before_the_queue(world: World) -> None:
    world.gate.refuse = lambda facts: Refusal("too_long", "no", "shorter", status=429) if facts.body["user"] else None
    answer = world.chat("hello", user="me", max_tokens=5)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "too_long"
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert world.engine.requests == []
    facts = world.gate.seen[-1]
    assert (facts.route, facts.max_tokens, facts.key) == ("chat", 5, None)
    assert facts.prompt_tokens > 5


def test_plugins_read_fields_by_the_names_that_clients_send(world: World) -> None:
    sent = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        "structured_outputs": {"json": {"type": "array"}},
    }
    for field, value in sent.items():
        assert world.chat(**{field: value}).status_code == 200
        assert world.gate.seen[-1].body[field] == value


def test_replies_of_many_clients_do_not_mix(world: World, text: Text) -> None:
    import concurrent.futures

    world.engine.script = lambda request: Script(request.prompt, rounds=2, pause=0.002)
    words = [f"number {i} of many" for i in range(20)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda word: world.complete(word).json()["choices"][0]["text"], words))
    assert answers == words


def test_a_bug_in_a_stream_ends_it_properly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tf_host.http.chat_reply import ChatReply

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("secret\nof the user")

    monkeypatch.setattr(ChatReply, "delta", broken)
    *_, last = events(world.chat(stream=True))
    assert last["error"]["message"] == "the server made a mistake"
    answer = None
    monkeypatch.setattr(ChatReply, "whole", broken)
    answer = world.chat()
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "secret" not in answer.text

"""What changes nothing is listed in the reply, by its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.http.asking import WRITES_ALL, post
from tests.host.http.conftest import World
from tests.host.http.test_replies import events
from tf_host.text import load_text


def test_unknown_fields_are_listed(world: World) -> None:
    assert world.chat(foo=1, user="me", zoo=None).json()["tf"]["ignored"] == ["foo", "user"]


def test_unknown_fields_of_messages_are_listed_with_their_path(world: World, text: Any) -> None:
    second = {"role": "user", "content": "hi", "foo": {"<|im_end|>": 1}, "__all__": 1, "refusal": None}
    messages = [{"role": "user", "content": "hi", "prefix": None}, second]
    answer = post(world, "/v1/chat/completions", {"messages": messages, "user": "me"})
    assert answer.json()["tf"]["ignored"] == ["messages[1].__all__", "messages[1].foo", "user"]


NESTED: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "foo": 1, "cache_control": {}}]}]},
        ["messages[0].content[0].cache_control", "messages[0].content[0].foo"],
    ),
    ({"tools": [{"type": "function", "x": 1, "function": {"name": "f", "x": 1}}]},
     ["tools[0].function.x", "tools[0].x"]),
    (
        {"tools": [{"type": "function", "function": {"name": "f"}}],
         "tool_choice": {"type": "function", "x": 1, "function": {"name": "f", "x": 1}}},
        ["tool_choice.function.x", "tool_choice.x"],
    ),
    ({"stream_options": {"foo": 1, "include_usage": True, "continuous_usage_stats": True}, "stream": True},
     ["stream_options.continuous_usage_stats", "stream_options.foo"]),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "bar": 1}}},
        ["response_format.json_schema.bar"],
    ),
    ({"chat_template_kwargs": {"foo": 1, "mood": "good"}}, ["chat_template_kwargs.foo"]),
    ({"reasoning_effort": "low"}, ["reasoning_effort"]),
    ({"chat_template_kwargs": {"enable_thinking": False}}, ["chat_template_kwargs.enable_thinking"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "ignored"), NESTED, ids=[ignored[0] for _, ignored in NESTED])
def test_what_changes_nothing_is_listed_wherever_it_is(
    make_world: Callable[..., World], tmp_path: Path, body: dict[str, Any], ignored: list[str]
) -> None:
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, WRITES_ALL)))
    sent = {"messages": [{"role": "user", "content": "hi"}], **body}
    answer = post(world, "/v1/chat/completions", sent)
    assert answer.status_code == 200, answer.text
    told = events(answer)[-1] if body.get("stream") else answer.json()
    assert told["tf"]["ignored"] == ignored
    shown = world.served.text.decode(world.engine.requests[-1].prompt)
    assert "foo" not in shown
    assert '"x"' not in shown


def test_what_a_call_in_the_conversation_has_too_much_is_listed_and_not_rendered(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    template = "{{ messages | tojson }}"
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, template)))
    call = {"id": "c", "foo": 1, "function": {"name": "f", "arguments": "{}", "bar": 1}}
    body = {"messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "x"}]}
    answer = post(world, "/v1/chat/completions", body).json()
    assert answer["tf"]["ignored"] == ["messages[0].tool_calls[0].foo", "messages[0].tool_calls[0].function.bar"]
    assert json.loads(world.served.text.decode(world.engine.requests[-1].prompt)) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}],
        },
        {"role": "tool", "content": "x"},
    ]


def test_fields_of_messages_that_the_template_drops_are_listed(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    template = "My name is tool_calls. {% for m in messages %}{{ m['content'] }}{% endfor %}"
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, template)))
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi", "name": "me", "tool_call_id": "x"},
        {"role": "assistant", "content": "yes", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "user", "content": "so"},
    ]
    assert post(world, "/v1/chat/completions", {"messages": messages}).json()["tf"]["ignored"] == [
        "messages[0].name",
        "messages[0].tool_call_id",
        "messages[1].reasoning_content",
        "messages[1].tool_calls",
    ]

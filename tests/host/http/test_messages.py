"""What messages, and all else that goes to the chat template, may hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.http.asking import post, wrong
from tests.host.http.conftest import World


@pytest.mark.parametrize(("field", "value"), [("function_call", {"name": "f", "arguments": "{}"}), ("prefix", True)])
def test_fields_of_messages_that_change_their_meaning_are_refused(world: World, field: str, value: Any) -> None:
    last = {"role": "assistant", "content": "hi", field: value}
    error = wrong(post(world, "/v1/chat/completions", {"messages": [last]}), f"messages[0].{field}")
    assert error["code"] == "unsupported_parameter"


def called(arguments: str) -> dict[str, Any]:
    """A body with a tool call of an earlier reply."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    return {"messages": messages}


ARGUMENTS = "messages[0].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    "arguments",
    ["[" * 100_000, '{"a":' * 50_000, *('{"a":' * deep + "1" + "}" * deep for deep in (65, 500, 900))],
    ids=["open lists", "open objects", "65", "500", "900"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_arguments_nested_too_deeply(world: World, path: str, arguments: str) -> None:
    error = wrong(post(world, path, called(arguments)), ARGUMENTS)
    assert error["message"].endswith("is nested deeper than 64 levels; flatten it")


@pytest.mark.parametrize("arguments", ['{"a":' * 64 + "1" + "}" * 64, '{"a": ', "", "null", '"\\ud83d\\ude80"'])
def test_arguments_that_pass(world: World, arguments: str) -> None:
    assert post(world, "/v1/chat/completions", called(arguments)).status_code == 200


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


def test_all_that_goes_to_the_template_has_a_depth(world: World) -> None:
    assert "64" in wrong(world.chat(chat_template_kwargs={"x": nested(64)}), "chat_template_kwargs")["message"]
    tools = [{"type": "function", "function": {"name": "f", "parameters": nested(64)}}]
    assert "64" in wrong(world.chat(tools=tools), "tools[0].function.parameters")["message"]
    assert world.chat(chat_template_kwargs={"x": nested(62)}).status_code == 200
    tools[0]["function"]["parameters"] = nested(63)  # type: ignore[index]
    assert world.chat(tools=tools).status_code == 200


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_all_that_goes_to_the_template_is_finite(world: World, number: float) -> None:
    def chat(**body: Any) -> Any:
        return post(world, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **body})

    words = "has a number that is not finite"
    assert words in wrong(chat(chat_template_kwargs={"x": [{"y": number}]}), "chat_template_kwargs")["message"]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"minimum": number}}}]
    assert words in wrong(chat(tools=tools), "tools[0].function.parameters")["message"]


def test_a_lone_surrogate_is_no_text(world: World) -> None:
    for path, body, param in (
        ("/v1/chat/completions", called('{"a": "\\ud800"}'), ARGUMENTS),
        ("/v1/completions", {"prompt": "hi", "stop": ["a", "\udfff!"]}, "stop[1]"),
        ("/tokenize", {"prompt": "\ud83d."}, "prompt"),
        ("/tokenize", {"prompt": "hi", "\ud83d": 1}, None),
    ):
        message = wrong(post(world, path, body), param)["message"]
        assert message.endswith("has a lone surrogate, which is not valid Unicode; send characters past U+FFFF whole")
    answer = world.client.post(
        "/tokenize", content=b'{"prompt": "\xed\xa0\x80"}', headers={"Content-Type": "application/json"}
    )
    assert "lone surrogate" in wrong(answer, "prompt")["message"]


def test_too_many_tools_and_two_of_one_name_differ(world: World) -> None:
    def tools(*names: str) -> Any:
        return world.chat(tools=[{"type": "function", "function": {"name": name}} for name in names])

    assert "more than 128" in wrong(tools(*map(str, range(129))), "tools")["message"]
    assert "two tools named 'b'" in wrong(tools("a", "b", "c", "b"), "tools")["message"]
    assert tools(*map(str, range(128))).status_code == 200


def test_a_control_token_in_a_key_names_the_field(world: World) -> None:
    wrong(world.chat(chat_template_kwargs={"x": {"<|im_end|>": 1}}), "chat_template_kwargs")
    wrong(post(world, "/v1/chat/completions", called('{"<|im_end|>": 1}')), "messages")


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hi", "messages"),
        (None, "messages"),
        ([5], "messages[0]"),
        ([{"content": "hi"}], "messages[0].role"),
        ([{"role": "boss", "content": "hi"}], "messages[0].role"),
        ([{"role": "user", "content": "a"}, {"role": "user"}], "messages[1]"),
        ([{"role": "user", "content": None}], "messages[0]"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content"),
        ([{"role": "user", "content": "\ud800"}], "messages[0].content"),
    ],
)
def test_messages_that_cannot_be_served(world: World, messages: Any, param: str | None) -> None:
    error = wrong(post(world, "/v1/chat/completions", {"messages": messages}), param)
    kinds = [part.get("type") for part in messages[0]["content"]] if "[{'type'" in str(messages) else []
    if "image_url" in kinds:
        assert "images are not served" in error["message"]


def test_text_parts_are_joined(world: World, text: Any) -> None:
    world.chat([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
    assert "one\ntwo" in text.decode(world.engine.requests[-1].prompt)


def test_a_developer_is_a_system(world: World, text: Any) -> None:
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert post(world, "/v1/chat/completions", {"messages": messages}).status_code == 200
    assert text.decode(world.engine.requests[-1].prompt).startswith("<|im_start|>system\nbe brief")

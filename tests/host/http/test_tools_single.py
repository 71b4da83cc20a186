"""Models whose template takes one call a message, as Llama 3's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.http.conftest import World
from tests.host.http.test_tools import TOOLS, says, streamed
from tf_host.text import Text, load_text

LLAMA = (
    "{% if tools %}{{ tools | tojson }}"
    '{"name": function name, "parameters": dictionary of argument name and its value}{% endif %}'
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    '{% set f = m.tool_calls[0].function %}{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}'
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
USER = {"role": "user", "content": "hi"}
FIRST = '{"name": "weather", "parameters": {"city": "Paris"}}'
SECOND = FIRST.replace("Paris", "Rome")


@pytest.fixture(scope="module")
def llama_text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp("llama"), LLAMA))


@pytest.fixture
def llama_world(make_world: Callable[..., World], llama_text: Text) -> World:
    return make_world(text=llama_text, context=800)


def post(world: World, messages: list[Any], **body: Any) -> Any:
    return world.client.post("/v1/chat/completions", json={"messages": messages, "tools": TOOLS, **body})


@pytest.mark.parametrize("parallel", [None, True, False])
def test_a_reply_ends_behind_its_first_call(llama_world: World, parallel: bool | None) -> None:
    says(llama_world, f"{FIRST}; {SECOND}", rounds=4)
    reply = post(llama_world, [USER], parallel_tool_calls=parallel).json()
    choice = reply["choices"][0]
    message, text = choice["message"], llama_world.served.text
    assert (choice["finish_reason"], message["content"]) == ("tool_calls", None)
    (call,) = message["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert reply["usage"]["completion_tokens"] <= len(text.encode(f"{FIRST}; ", special=False))
    assert reply["tf"]["ignored"] == (["parallel_tool_calls"] if parallel else [])
    told, reason = streamed(post(llama_world, [USER], parallel_tool_calls=parallel, stream=True))
    assert reason == "tool_calls"
    assert [one["arguments"] for one in told["calls"]] == ['{"city": "Paris"}']
    assert not told["content"]
    answer = post(llama_world, [USER, message, {"role": "tool", "tool_call_id": call["id"], "content": "sun"}])
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("said", [f"{FIRST} and; {SECOND}", "no call; at all", f"{FIRST.replace('weather', 'x')}; 1"])
def test_what_is_no_call_is_whole(llama_world: World, said: str) -> None:
    says(llama_world, said)
    assert post(llama_world, [USER]).json()["choices"][0]["message"]["content"] == said
    assert streamed(post(llama_world, [USER], stream=True))[0]["content"] == said


def test_an_empty_list_of_calls_is_none(llama_world: World) -> None:
    says(llama_world, "fine")
    for calls in ([], None):
        answer = post(llama_world, [USER, {"role": "assistant", "content": "hello", "tool_calls": calls}, USER])
        assert answer.status_code == 200, answer.text
        assert "assistant\nhello<|im_end|>" in llama_world.served.text.decode(llama_world.engine.requests[-1].prompt)
    tokens = {"messages": [{"role": "assistant", "content": "hello", "tool_calls": []}]}
    assert llama_world.client.post("/tokenize", json=tokens).status_code == 200
    empty = post(llama_world, [USER, {"role": "assistant", "tool_calls": []}]).json()["error"]
    assert "needs 'content'" in empty["message"]


def test_what_the_template_refuses_is_said_without_a_guess(llama_world: World) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    answer = post(llama_world, [USER, {"role": "assistant", "tool_calls": [call, call]}])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "the model's chat template refuses these messages: This model only supports single tool-calls at once!; "
        "change the messages, or start the server with another template (--chat-template FILE)"
    )

"""Tools beside a constraint: a reply is calls, or the constrained text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.fakes.proposers import FakeProposer, noise
from tests.fakes.wide_lanes import CONTEXT, wide_engine
from tests.host.http.conftest import World
from tests.host.http.test_tools import HERMES, MARKS, TOOLS, streamed
from tf_host.text import load_text

ANSWER = {
    "type": "object",
    "properties": {"answer": {"enum": ["yes", "no"]}},
    "required": ["answer"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": ANSWER}}
LLAMA = (
    "{% if tools %}{{ tools | tojson }}"
    '{"name": function name, "parameters": dictionary of argument name and its value}{% endif %}'
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MISTRAL = "{{ tools }}[TOOL_CALLS]{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module", params=["hermes", "llama"])
def lanes_world(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from tests.host.http.conftest import build

    template, marks = (HERMES, MARKS) if request.param == "hermes" else (LLAMA, ())
    text = load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp(request.param), template, marks))
    with wide_engine(text.vocab, [FakeProposer(noise(1, text.vocab))]) as engine:
        world = build(text, engine=engine, context=CONTEXT)
        world.start()
        yield world
        world.stop()


def checked(message: dict[str, Any], calls: list[dict[str, Any]]) -> str:
    """What kind of reply it is, which is valid as that."""
    if not calls:
        assert json.loads(message["content"])["answer"] in ("yes", "no")
        return "text"
    assert not message.get("content")
    for call in calls:
        arguments = json.loads(call["arguments"])
        assert arguments["city"] in ("Paris", "Rome") if call["name"] == "weather" else arguments == {}
    return "calls" if len(calls) > 1 else "call"


@pytest.mark.parametrize("asked", [{"response_format": FORMAT}, {"guided_json": ANSWER}], ids=["openai", "vllm"])
def test_a_reply_is_calls_or_the_value(lanes_world: World, asked: dict[str, Any]) -> None:
    kinds, forced, text = set(), 0, lanes_world.served.text
    calls_more = [str(token) for part in (";", "\n", "n") for token in text.encode(part, special=False)]
    for seed in range(16):
        bias = dict.fromkeys(calls_more, 3 * (seed % 2))  # the model alone writes text, with few exceptions
        body = {"tools": TOOLS, "seed": seed, "max_tokens": 600, "temperature": 2, "logit_bias": bias, **asked}
        body |= {"thinking_budget": 3} if text.thinking else {}
        drafted, plain = (lanes_world.chat(draft=draft, **body).json() for draft in (True, False))
        assert drafted["tf"]["token_sha"] == plain["tf"]["token_sha"]
        assert drafted["tf"]["ignored"] == []
        forced += drafted["tf"]["sources"].get("grammar", {"accepted": 0})["accepted"]
        choice = drafted["choices"][0]
        calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
        assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
        kinds.add(checked(choice["message"], calls))
        message, reason = streamed(lanes_world.chat(stream=True, **body))
        assert reason == choice["finish_reason"]
        found = [{"name": one["name"], "arguments": one["arguments"]} for one in message.get("calls", ())]
        assert found == calls
        assert (message.get("content") or None) == choice["message"]["content"]
        assert message.get("reasoning_content") == choice["message"].get("reasoning_content")
    assert kinds == {"text", "call", "calls"}
    assert forced > 100


def test_one_call_where_calls_are_not_parallel(lanes_world: World) -> None:
    kinds, text = set(), lanes_world.served.text
    bias = {str(token): 3 for part in (";", "\n", "n") for token in text.encode(part, special=False)}
    for seed in range(8):
        body = {"tools": TOOLS, "seed": seed, "max_tokens": 600, "temperature": 2, "logit_bias": bias}
        body |= {"parallel_tool_calls": False, "return_token_ids": True}
        body |= {"thinking_budget": 3} if text.thinking else {}
        choice = lanes_world.chat(response_format=FORMAT, **body).json()["choices"][0]
        message = choice["message"]
        if choice["finish_reason"] == "tool_calls":
            assert choice["token_ids"][-1] in text.end_ids  # the grammar has no second call to begin
        kinds.add(checked(message, [call["function"] for call in message.get("tool_calls", ())]))
    assert "calls" not in kinds
    assert "call" in kinds


def test_a_forced_choice_wins_over_the_format(lanes_world: World) -> None:
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        body = {"tools": TOOLS, "tool_choice": choice, "seed": 1, "max_tokens": 300}
        reply = lanes_world.chat(response_format=FORMAT, **body).json()
        message = reply["choices"][0]["message"]
        assert checked(message, [call["function"] for call in message["tool_calls"]]) == "call"
        assert reply["tf"]["ignored"] == ["response_format"]
        free = lanes_world.chat(response_format={"type": "text"}, **body).json()
        assert free["tf"]["token_sha"] == reply["tf"]["token_sha"]
        assert free["tf"]["ignored"] == []
        error = lanes_world.chat(guided_json=ANSWER, **body).json()["error"]
        assert error["message"].startswith("'tool_choice' and 'guided_json' constrain one reply")


def test_no_choice_is_the_value_alone(lanes_world: World) -> None:
    for seed in range(4):
        body = {"tools": TOOLS, "tool_choice": "none", "seed": seed, "max_tokens": 300}
        body |= {"thinking_budget": 3} if lanes_world.served.text.thinking else {}
        message = lanes_world.chat(response_format=FORMAT, **body).json()["choices"][0]["message"]
        assert checked(message, message.get("tool_calls", [])) == "text"


@pytest.mark.parametrize("template", [MISTRAL, LLAMA])
def test_calls_that_are_no_json_do_not_go_with_a_constraint(
    make_world: Callable[..., World], tmp_path: Path, template: str
) -> None:
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, template)), context=CONTEXT)
    answer = world.chat(tools=TOOLS, response_format=FORMAT)
    if template == LLAMA:
        assert answer.status_code == 200
        return
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "response_format"
    assert answer.json()["error"]["message"] == (
        "'tools' and 'response_format' go together only where the model writes calls as JSON; "
        "send one of them, or 'tool_choice': 'none'"
    )
    assert world.chat(tools=TOOLS, tool_choice="none", response_format=FORMAT).status_code == 200
    assert world.chat(tools=TOOLS).status_code == 200


def test_a_template_without_tools_is_asked_for_no_call(make_world: Callable[..., World]) -> None:
    answer = make_world().chat(tools=TOOLS, tool_choice="required")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tool_choice")
    assert answer.json()["error"]["message"] == (
        "'tool_choice' asks for a call, and this model's chat template takes no tools; "
        "leave the tools out, or serve a model whose template takes them"
    )

"""Tool calls and reasoning in chat replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from tests.fakes import tiny_tokenizer
from tests.fakes.wide_lanes import CONTEXT, wide_engine
from tests.host.http.conftest import World
from tf_host.text import Text, load_text

HERMES = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{% set tool_call = c.function %}"
    '<tool_call>{"name": "{{ tool_call.name }}", "arguments": {{ tool_call.arguments | tojson }}}</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
    "{% endif %}"
)
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or {"type": "object"}}}


CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [tool("weather", CITY), tool("time", {"type": "object", "additionalProperties": False})]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture(scope="module")
def tool_text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp("hermes"), HERMES, MARKS))


@pytest.fixture
def tools_world(make_world: Callable[..., World], tool_text: Text) -> World:
    return make_world(text=tool_text, context=600)


def says(world: World, text: str, **script: Any) -> None:
    """What the model says, control tokens parsed."""
    world.says("")
    world.engine.script.tokens = world.served.text.encode(text)  # type: ignore[union-attr]
    for name, value in script.items():
        setattr(world.engine.script, name, value)


def streamed(answer: Any) -> tuple[dict[str, Any], str | None]:
    """The message that a stream's deltas make, and its finish reason."""
    message: dict[str, Any] = {}
    calls: dict[int, dict[str, Any]] = {}
    reason = None
    for line in answer.text.split("\n"):
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            reason = choice["finish_reason"] or reason
            for name, value in choice["delta"].items():
                if name != "tool_calls":
                    message[name] = message.get(name, "") + value
                    continue
                for part in value:
                    call = calls.setdefault(part["index"], {"name": "", "arguments": "", "id": part.get("id")})
                    call["name"] += part["function"].get("name", "")
                    call["arguments"] += part["function"].get("arguments", "")
    return message | ({"calls": [calls[i] for i in sorted(calls)]} if calls else {}), reason


def test_a_call(tools_world: World) -> None:
    says(tools_world, f"</think>{CALL}")
    choice = tools_world.chat(tools=TOOLS).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert call["id"].startswith("call_")


@pytest.mark.parametrize("rounds", [1, 4])
def test_calls_streamed(tools_world: World, rounds: int) -> None:
    second = CALL.replace("weather", "time").replace('{"city": "Paris"}', "{}")
    says(tools_world, f"hm</think>\n\nLet me see. {CALL}\n{second}", rounds=rounds)
    message, reason = streamed(tools_world.chat(tools=TOOLS, stream=True))
    assert reason == "tool_calls"
    assert message["reasoning_content"] == "hm"
    assert message["content"] == "Let me see."
    assert [call["name"] for call in message["calls"]] == ["weather", "time"]
    assert json.loads(message["calls"][0]["arguments"]) == {"city": "Paris"}
    assert len({call["id"] for call in message["calls"]}) == 2


@pytest.mark.parametrize(
    "text",
    ["no call", "<tool_call>broken</tool_call>", CALL.replace("weather", "unknown"), "5 < 6 <tool",
             CALL.replace("Paris", "\\ud83d")],
)  # fmt: skip
def test_what_is_no_call_is_content(tools_world: World, text: str) -> None:
    says(tools_world, f"</think>{text}")
    for message, reason in (
        streamed(tools_world.chat(tools=TOOLS, stream=True)),
        (
            (choice := tools_world.chat(tools=TOOLS).json()["choices"][0])["message"],
            choice["finish_reason"],
        ),
    ):
        assert message["content"] == text
        assert reason == "stop"
        assert "tool_calls" not in message
        assert "calls" not in message


def test_a_truncated_call_is_content(tools_world: World) -> None:
    says(tools_world, f"</think>{CALL}")
    choice = tools_world.chat(tools=TOOLS, max_tokens=10).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].startswith('<tool_call>\n{"name"')
    assert "tool_calls" not in choice["message"]


def test_without_tools_marks_are_content(tools_world: World) -> None:
    says(tools_world, f"</think>{CALL}")
    for body in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        message = tools_world.chat(**body).json()["choices"][0]["message"]
        assert '"city": "Paris"' in message["content"]
        assert "tool_calls" not in message
        assert "weather" not in tools_world.served.text.decode(tools_world.engine.requests[-1].prompt)


def test_one_call_where_calls_are_not_parallel(tools_world: World) -> None:
    says(tools_world, f"</think>{CALL}{CALL}")
    assert len(tools_world.chat(tools=TOOLS).json()["choices"][0]["message"]["tool_calls"]) == 2
    reply = tools_world.chat(tools=TOOLS, parallel_tool_calls=False).json()
    assert len(reply["choices"][0]["message"]["tool_calls"]) == 1
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert reply["usage"]["completion_tokens"] == len(tools_world.served.text.encode(f"</think>{CALL}<tool_call>"))
    assert reply["tf"]["ignored"] == []


def test_an_earlier_call_is_rendered_as_the_template_does(tools_world: World) -> None:
    says(tools_world, "</think>fine")
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    answer = tools_world.client.post("/v1/chat/completions", json={"messages": messages, "tools": TOOLS})
    assert answer.status_code == 200, answer.text
    prompt = tools_world.served.text.decode(tools_world.engine.requests[-1].prompt)
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>' in prompt
    assert "<|im_start|>tool\nsunny<|im_end|>" in prompt


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": "x"}, "tools"),
        ({"tools": [{"type": "web"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [tool("a b")]}, "tools[0].function.name"),
        ({"tools": [tool("<|im_end|>")]}, "tools[0].function.name"),
        ({"tools": [tool("a"), tool("a")]}, "tools"),
        ({"tools": TOOLS, "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [tool("a", {"type": "foo"})], "tool_choice": "required"}, "tools"),
        ({"tools": TOOLS, "tool_choice": "required", "guided_regex": "a"}, "tool_choice"),
        ({"tools": TOOLS, "parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"functions": TOOLS}, "functions"),
    ],
)
def test_tools_that_cannot_be_served(tools_world: World, body: dict[str, Any], param: str) -> None:
    answer = tools_world.chat(**body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


def test_a_choice_without_its_tool_says_what_is_missing(tools_world: World) -> None:
    def said(**body: Any) -> str:
        return str(tools_world.chat(**body).json()["error"]["message"])

    none = "'tool_choice' asks for a call, and 'tools' is missing or empty; send the tools, or use auto"
    assert said(tool_choice="required") == said(tool_choice="required", tools=[]) == none
    named = {"type": "function", "function": {"name": "x"}}
    assert said(tool_choice=named) == none
    assert said(tool_choice=named, tools=TOOLS) == (
        "'tool_choice' names 'x', which is not in 'tools'; name one of: weather, time"
    )


def test_a_model_without_tools_says_so(world: World) -> None:
    assert world.chat(tools=TOOLS).json()["tf"]["ignored"] == ["tools"]
    assert world.chat(tools=TOOLS, tool_choice="none").json()["tf"]["ignored"] == []
    answer = world.chat(tools=TOOLS, tool_choice="required")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tool_choice"


def test_the_openai_client_calls_tools(tools_world: World) -> None:
    says(tools_world, f"hm</think>{CALL}")
    with openai.OpenAI(base_url=f"{tools_world.url}/v1", api_key="x", max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        reply = client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        assert message.tool_calls[0].function.name == "weather"
        messages += [message.model_dump(), {"role": "tool", "tool_call_id": "x", "content": "ok"}]
        assert client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS).choices
        with client.chat.completions.stream(model="tiny", messages=messages[:1], tools=TOOLS) as stream:
            final = stream.get_final_completion()
        assert final.choices[0].message.tool_calls[0].function.arguments == '{"city": "Paris"}'


class TestForced:
    """A required or named call, through real lanes."""

    @pytest.fixture
    def lanes_world(self, make_world: Callable[..., World], tool_text: Text) -> Iterator[World]:
        with wide_engine(tool_text.vocab) as engine:
            yield make_world(text=tool_text, engine=engine, context=CONTEXT)

    @pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
    def test_a_call_is_made(self, lanes_world: World, choice: Any) -> None:
        names = set()
        for seed in range(6):
            body = {"tools": TOOLS, "tool_choice": choice, "seed": seed, "thinking_budget": 3, "max_tokens": 200}
            replies = [lanes_world.chat(draft=draft, **body).json() for draft in (True, False)]
            assert replies[0]["tf"]["token_sha"] == replies[1]["tf"]["token_sha"]
            choice_made = replies[0]["choices"][0]
            assert choice_made["finish_reason"] == "tool_calls", choice_made
            (call,) = choice_made["message"]["tool_calls"]
            arguments = json.loads(call["function"]["arguments"])
            names.add(call["function"]["name"])
            if call["function"]["name"] == "weather":
                assert arguments["city"] in ("Paris", "Rome")
        assert names == ({"weather", "time"} if choice == "required" else {"weather"})

    def test_schemas_that_refer_to_themselves(self, lanes_world: World) -> None:
        place = {"$ref": "#/definitions/Place"}
        tools = [
            tool("time", {"type": "object", "additionalProperties": False}),
            tool("trip", {**place, "definitions": {"Place": {**CITY, "properties": {"city": {"enum": ["Rome"]}}}}}),
        ]
        for draft in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"):
            tools[1]["function"]["parameters"]["$schema"] = draft
            for seed in range(4):
                body = {"tools": tools, "tool_choice": "required", "seed": seed, "thinking_budget": 3}
                answer = lanes_world.chat(max_tokens=200, **body)
                assert answer.status_code == 200, answer.text
                (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
                made = call["function"]["name"], json.loads(call["function"]["arguments"])
                assert made in (("time", {}), ("trip", {"city": "Rome"}))


def test_reasoning_is_a_field_of_its_own(tools_world: World) -> None:
    says(tools_world, "hm, let me\n\nthink</think>\n\nyes")
    reply = tools_world.chat().json()
    message = reply["choices"][0]["message"]
    assert message == {"role": "assistant", "reasoning_content": "hm, let me\n\nthink", "content": "yes"}
    ids = tools_world.served.text.encode("hm, let me\n\nthink")
    assert reply["usage"]["completion_tokens_details"] == {"reasoning_tokens": len(ids)}
    assert streamed(tools_world.chat(stream=True))[0] == message


@pytest.mark.parametrize("rounds", [1, 2, 5, 50])
@pytest.mark.parametrize(
    ("said", "reasoning", "content"),
    [
        ("hm\n</think>\n\nyes\n", "hm", "yes\n"),
        ("\n\nhm\n\n \nhm \r\n\n</think>yes", "hm\n\n \nhm ", "yes"),
        ("\n\n</think>yes", None, "yes"),
        ("hm\n\n", "hm\n\n", ""),  # cut off: there is no mark
    ],
)
def test_line_ends_around_the_marks_are_dropped(
    tools_world: World, said: str, reasoning: str | None, content: str, rounds: int
) -> None:
    says(tools_world, said, rounds=rounds)
    message = tools_world.chat().json()["choices"][0]["message"]
    assert (message.get("reasoning_content"), message["content"]) == (reasoning, content)
    told, _ = streamed(tools_world.chat(stream=True))
    assert (told.get("reasoning_content"), told["content"]) == (reasoning, content)


def test_stop_strings_wait_for_the_answer(tools_world: World) -> None:
    says(tools_world, "one STOP two</think>three STOP four")
    message = tools_world.chat(stop="STOP").json()["choices"][0]["message"]
    assert message["reasoning_content"] == "one STOP two"
    assert message["content"] == "three "


def test_reasoning_that_is_cut_off(tools_world: World) -> None:
    says(tools_world, "hm hm hm hm hm hm")
    choice = tools_world.chat(max_tokens=4).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == ""
    assert choice["message"]["reasoning_content"]


@pytest.mark.parametrize("body", [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}])
def test_thinking_can_be_off(tools_world: World, body: dict[str, Any]) -> None:
    says(tools_world, "yes")
    reply = tools_world.chat(**body).json()
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "yes"}
    assert reply["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}
    prompt = tools_world.served.text.decode(tools_world.engine.requests[-1].prompt)
    assert prompt.endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tokenize": False}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"a b": 1}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"__class__": 1}}, "chat_template_kwargs"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"thinking_budget": -1}, "thinking_budget"),
        ({"thinking_budget": True}, "thinking_budget"),
    ],
)
def test_variables_that_cannot_be_served(tools_world: World, body: dict[str, Any], param: str) -> None:
    answer = tools_world.chat(**body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_model_that_does_not_think_says_so(world: World) -> None:
    reply = world.chat(thinking_budget=5, reasoning_effort="low").json()
    assert reply["tf"]["ignored"] == ["reasoning_effort", "thinking_budget"]
    assert "completion_tokens_details" not in reply["usage"]


@pytest.mark.parametrize(
    ("more", "ignored"),
    [
        ({}, ["tools[0].function.strict"]),
        ({"tool_choice": "auto"}, ["tools[0].function.strict"]),
        ({"tool_choice": "none"}, []),
        ({"tool_choice": "required"}, []),
        ({"response_format": {"type": "json_object"}}, []),
    ],
)
def test_a_strict_tool_says_where_nothing_holds_the_call_to_it(
    tools_world: World, more: dict[str, Any], ignored: list[str]
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
    other = {"type": "function", "function": {"name": "g", "strict": False}}
    answer = tools_world.chat(tools=[tool, other], **more)
    assert answer.json()["tf"]["ignored"] == ignored

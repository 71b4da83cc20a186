"""What a body may say: JSON types are taken at their word, and what is not served is refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.http.conftest import CONTEXT, World
from tests.host.http.test_replies import events
from tf_host.text import load_text

WRONG: list[tuple[str, Any]] = [
    *(("max_tokens", value) for value in (-1, 0, "5", True, 1.0, [1], {}, 1 << 63, 10**500, 10**4300 - 1)),
    *(("temperature", value) for value in (float("nan"), float("inf"), -1, "0", True, [], 10**309)),
    *(("top_p", value) for value in (0, 1.5, -0.1, "1", True, float("nan"))),
    *(("top_k", value) for value in (-2, "5", True, 1.5, 1 << 63, 10**309)),
    *(("min_p", value) for value in (-0.1, 1.1, True, "0")),
    *(("repetition_penalty", value) for value in (0, -1, True, "1")),
    *(("presence_penalty", value) for value in (-2.1, 3, True)),
    *(("frequency_penalty", value) for value in (-2.1, 3, "0")),
    *(("seed", value) for value in (1.5, "1", True, 1 << 64, -(1 << 63) - 1)),
    *(("stop", value) for value in (5, [5], [None], "", ["a", ""], {}, True, ["x"] * 17, "x" * 1001)),
    *(("logit_bias", value) for value in ([], {"a": 1}, {"1": "2"}, {"1": True}, {"1": 101}, {"-1": 1}, {"99999": 1})),
    *(("logit_bias", value) for value in ({"9" * 4300: 1}, {"1": 10**309}, {"007": 1, "7": 100})),
    *(("stop_token_ids", value) for value in (5, ["a"], [True], [-1], [99999], [10**4000])),
    *(("stream", value) for value in ("true", 1)),
    *(("draft", value) for value in ("no", 0)),
    *(("ignore_eos", value) for value in ("no", 1)),
    *(("return_token_ids", value) for value in ("no", 1)),
    *(("n", value) for value in (0, 2, "1", True, 1.0)),
    *(("model", value) for value in (5, [], True)),
]
UNSERVED: list[tuple[str, Any]] = [
    ("best_of", 2),
    ("echo", True),
    ("suffix", "end"),
    ("min_tokens", 5),
    ("use_beam_search", True),
    ("prompt_logprobs", 1),
    ("chat_template", "{{ 1 }}"),
    ("functions", [{}]),
    ("audio", {}),
    ("modalities", ["text", "audio"]),
    ("adapters", "x"),
    ("logits_processors", ["x"]),
    ("include_stop_str_in_output", True),
    ("continue_final_message", True),
]


WRITES_ALL = (
    "{{ tools | tojson }}{{ mood }}{# <tool_call>{{ tool_call.name }} #}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% if m.role == 'assistant' %}{{ m.reasoning_content }}{% endif %}{% endfor %}"
)


def wrong(answer: Any, param: str | None) -> dict[str, Any]:
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert param is None or param.split("[")[0].split(".")[0] in error["message"]
    assert len(error["message"]) < 300
    assert not re.search(r"Body|ResponseFormat|[a-z]Part", error["message"])  # names of our classes
    return error


def post(world: World, path: str, body: dict[str, Any]) -> Any:
    """NaN and the like go out as Python writes them."""
    return world.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(("field", "value"), WRONG, ids=[f"{f}={v!r:.20}" for f, v in WRONG])
def test_a_wrong_type_or_range_names_its_field(world: World, field: str, value: Any) -> None:
    wrong(post(world, "/v1/completions", {"prompt": "hi", field: value}), field)
    chat = {"messages": [{"role": "user", "content": "hi"}], field: value}
    wrong(post(world, "/v1/chat/completions", chat), field)
    assert world.chat().status_code == 200  # the next request works
    assert len(world.engine.requests) == 1


@pytest.mark.parametrize(("field", "value"), UNSERVED)
def test_what_is_not_served_is_refused_by_name(world: World, field: str, value: Any) -> None:
    error = wrong(world.complete(**{field: value}), field)
    assert "not served" in error["message"]
    assert error["code"] == "unsupported_parameter"


def test_null_is_the_default(world: World) -> None:
    fields = [f for f, _ in WRONG + UNSERVED]
    answer = world.chat(**dict.fromkeys(fields))
    assert answer.status_code == 200, answer.text
    assert answer.json()["tf"]["ignored"] == []


def test_values_that_ask_for_nothing_pass(world: World) -> None:
    quiet = {"n": 1, "best_of": 1, "echo": False, "suffix": "", "min_tokens": 0, "modalities": ["text"]}
    assert world.complete(**quiet).status_code == 200


@pytest.mark.parametrize("top_k", [0, -1, 10**9, (1 << 63) - 1])
def test_top_k_may_be_off(world: World, top_k: int) -> None:
    assert world.chat(top_k=top_k).status_code == 200
    assert world.engine.requests[-1].sampling.top_k == 0


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


@pytest.mark.parametrize(("field", "value"), [("messages", ["a"]), ("response_format", "json"), ("stream_options", 1)])
def test_what_must_be_an_object(world: World, field: str, value: Any) -> None:
    param = "messages[0]" if field == "messages" else field
    assert wrong(world.chat(**{"stream": True, field: value}), param)["message"] == f"'{param}' must be an object"


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        ["a", "b"],
        [[1], [2]],
        [1, "a"],
        [True],
        [1.0],
        [-1],
        [10**6],
        [1 << 40],
        [1 << 70],
        [10**4000],
        5,
        None,
        {},
        "",
        [[]],
        [["a"]],
        [[["a"]]],
    ],
)
def test_a_prompt_that_cannot_be_served_is_refused(world: World, prompt: Any) -> None:
    wrong(post(world, "/v1/completions", {"prompt": prompt}), "prompt")
    assert world.complete().status_code == 200


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
            "the body is nested deeper than 200 levels, at line 1 column 212; flatten it",
        ),
        (b'{"seed": ' + b"9" * 5_000 + b"}", "more than 4,300 digits, at line 1 column 4311; send a shorter one"),
        (b'{"prompt": ', "the body is not valid JSON: "),
        (b'{"prompt": ' + b"[" * 300, "nested deeper than 200 levels, at line 1 column 212; flatten it"),
    ],
    ids=["deep", "long number", "cut", "deep and cut"],
)
def test_a_body_past_the_parsers_limits_says_so(world: World, data: bytes, message: str) -> None:
    answer = world.client.post("/v1/completions", content=data, headers={"Content-Type": "application/json"})
    error = wrong(answer, None)
    assert error["code"] == "invalid_json"
    assert message in error["message"]


def test_the_parsers_limits_are_those_that_are_told(world: World) -> None:
    for data, passes in (
        (b'{"foo":%b1%b}' % (b"[" * 199, b"]" * 199), True),
        (b'{"foo":%b}' % (b"9" * 4_300), True),
        (b'{"foo":%b1%b}' % (b"[" * 200, b"]" * 200), False),
        (b'{"foo":%b}' % (b"9" * 4_301), False),
    ):
        answer = world.client.post("/tokenize", content=data, headers={"Content-Type": "application/json"})
        assert answer.json()["error"]["code"] == ("invalid_value" if passes else "invalid_json")


def test_a_name_that_is_no_variable_is_named(world: World) -> None:
    for name in ("messages", "documents", "a b", ""):
        message = wrong(world.chat(chat_template_kwargs={name: []}), "chat_template_kwargs")["message"]
        assert f"'chat_template_kwargs' has the name '{name}', which is no template variable" in message
        assert "; " in message
    long = wrong(world.chat(chat_template_kwargs={"a b" * 1000: 1}), "chat_template_kwargs")["message"]
    assert "'a ba ba b" in long


def test_only_several_prompts_are_called_so(world: World) -> None:
    assert "several" in wrong(world.complete(["a", "b"]), "prompt")["message"]
    assert "list of token ids" in wrong(world.complete([["a"]]), "prompt")["message"]


@pytest.mark.parametrize("prompt", ["hi", ["hi"], [74, 75], [[74, 75]]])
def test_prompts_of_each_form(world: World, prompt: Any) -> None:
    assert world.complete(prompt).status_code == 200
    assert world.engine.requests[-1].prompt == (74, 75)


def test_completions_parse_control_tokens(world: World) -> None:
    world.complete("<|im_start|>")
    assert world.engine.requests[-1].prompt == (1,)


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


def test_missing_fields_are_named(world: World) -> None:
    assert wrong(post(world, "/v1/chat/completions", {}), "messages")["code"] == "missing_required_parameter"
    assert wrong(post(world, "/v1/completions", {}), "prompt")["code"] == "missing_required_parameter"


def test_text_parts_are_joined(world: World, text: Any) -> None:
    world.chat([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
    assert "one\ntwo" in text.decode(world.engine.requests[-1].prompt)


def test_a_developer_is_a_system(world: World, text: Any) -> None:
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert post(world, "/v1/chat/completions", {"messages": messages}).status_code == 200
    assert text.decode(world.engine.requests[-1].prompt).startswith("<|im_start|>system\nbe brief")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"null", b"\xff", b'{"a":' * 5000, b"[" * 100_000])
def test_a_body_that_is_no_object(world: World, data: bytes) -> None:
    answer = world.client.post("/v1/completions", content=data, headers={"Content-Type": "application/json"})
    assert wrong(answer, None)["code"] == "invalid_json"


def test_limits_under_both_names(world: World) -> None:
    assert world.chat(max_tokens=2, max_completion_tokens=2).json()["usage"]["completion_tokens"] == 2
    assert world.chat(max_completion_tokens=3).json()["usage"]["completion_tokens"] == 3
    wrong(world.chat(max_tokens=2, max_completion_tokens=3), "max_tokens")


def test_logprobs_in_range(world: World) -> None:
    wrong(world.chat(top_logprobs=2), "top_logprobs")
    wrong(world.chat(logprobs=True, top_logprobs=21), "top_logprobs")
    wrong(world.chat(logprobs=1), "logprobs")
    for value in (-1, 21, True, "1"):
        wrong(world.complete(logprobs=value), "logprobs")


def test_stream_options_need_a_stream(world: World) -> None:
    wrong(world.chat(stream_options={}), "stream_options")
    wrong(world.chat(stream=True, stream_options={"include_usage": "yes"}), "stream_options.include_usage")


def test_sampling_reaches_the_engine(world: World) -> None:
    fields = {"temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1, "seed": -1, "repetition_penalty": 1.1,
              "presence_penalty": 0.2, "frequency_penalty": 0.3, "logit_bias": {"5": -100}}  # fmt: skip
    answer = world.chat(**fields, draft=False, ignore_eos=True, max_tokens=4)
    request = world.engine.requests[-1]
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.9, 0.1)
    assert (sampling.repetition, sampling.presence, sampling.frequency) == (1.1, 0.2, 0.3)
    assert sampling.logit_bias == {5: -100.0}
    assert sampling.seed == answer.json()["tf"]["seed"] == (1 << 64) - 1
    assert not request.draft
    assert request.end_ids == frozenset()


def test_a_seed_is_drawn_for_each_request(world: World) -> None:
    seeds = [world.chat().json()["tf"]["seed"] for _ in range(3)]
    assert len(set(seeds)) == 3
    assert seeds == [request.sampling.seed for request in world.engine.requests]


def test_a_temperature_near_zero_is_greedy(world: World) -> None:
    world.chat(temperature=1e-30)
    assert world.engine.requests[-1].sampling.temperature == 0


def test_stop_tokens_end_a_reply_without_text(world: World, text: Any) -> None:
    ids = text.encode("Hello, world!", special=False)
    answer = world.complete(stop_token_ids=[ids[2]], return_token_ids=True).json()
    assert answer["choices"][0]["text"] == text.decode(ids[:2])
    assert answer["choices"][0]["token_ids"] == ids[:3]
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_prompt_past_the_context_is_refused_with_the_numbers(world: World) -> None:
    error = wrong(world.complete([5] * 150, max_tokens=51), "prompt")
    assert error["code"] == "context_length_exceeded"
    assert {"200", "201", "150", "51", "50"} <= set(error["message"].replace(",", "").replace(";", "").split())
    error = wrong(world.complete([5] * CONTEXT), "prompt")
    assert error["code"] == "context_length_exceeded"
    assert world.engine.requests == []


def test_a_prompt_far_past_the_context_is_not_encoded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(world.served.text), "encode", None)
    monkeypatch.setattr(type(world.served.text), "chat", None)
    long = "once upon a time " * 10_000
    assert wrong(world.complete(long), "prompt")["code"] == "context_length_exceeded"
    error = world.chat(long).json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert "at least" in error["message"]
    assert wrong(post(world, "/tokenize", {"prompt": long}), "prompt")["code"] == "context_length_exceeded"


def test_all_that_a_template_writes_counts_before_it_is_encoded(
    make_world: Callable[..., World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, WRITES_ALL)))
    long = "once upon a time " * 10_000
    last = {"role": "user", "content": "hi"}
    call = {"function": {"name": "f", "arguments": json.dumps({"a": long})}}
    dropped = {"role": "user", "content": "hi", "reasoning_content": long}
    assert post(world, "/v1/chat/completions", {"messages": [dropped]}).status_code == 200
    monkeypatch.setattr(type(world.served.text), "chat", None)
    for body in (
        {"messages": [last], "tools": [{"type": "function", "function": {"name": "f", "description": long}}]},
        {"messages": [{"role": "assistant", "tool_calls": [call]}, last]},
        {"messages": [{"role": "assistant", "content": "hi", "reasoning_content": long}, last]},
        {"messages": [last], "chat_template_kwargs": {"mood": long}},
    ):
        for path in ("/v1/chat/completions", "/tokenize"):
            error = post(world, path, body).json()["error"]
            assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


def test_a_reply_is_capped_to_the_room(world: World) -> None:
    assert world.complete([5] * 190, ignore_eos=True).json()["usage"]["completion_tokens"] == 10
    assert world.complete([5] * 190, max_tokens=10).status_code == 200

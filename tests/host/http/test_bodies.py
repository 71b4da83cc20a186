"""What a body may say: JSON types are taken at their word, and what is not served is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.http.asking import WRITES_ALL, post, wrong
from tests.host.http.conftest import CONTEXT, World
from tf_host.text import load_text

WRONG: list[tuple[str, Any]] = [
    *(("max_tokens", value) for value in (-1, 0, "5", True, 1.0, [1], {}, 1 << 63, 10**500, 10**4300 - 1)),
    *(("temperature", value) for value in (float("nan"), float("inf"), -1, "0", True, [], 10**309)),
    *(("top_p", value) for value in (0, 1.5, -0.1, "1", True, float("nan"))),
    *(("top_k", value) for value in (-2, "5", True, 1.5, 1 << 63, 10**309)),
    *(("min_p", value) for value in (-0.1, 1.1, True, "0")),
    *(("repetition_penalty", value) for value in (0, 1e-300, -1, True, "1")),
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


def test_missing_fields_are_named(world: World) -> None:
    assert wrong(post(world, "/v1/chat/completions", {}), "messages")["code"] == "missing_required_parameter"
    assert wrong(post(world, "/v1/completions", {}), "prompt")["code"] == "missing_required_parameter"


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

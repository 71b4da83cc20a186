"""Constrained replies through real lanes: valid, and the same with and without drafts."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.proposers import FakeProposer, noise
from tests.fakes.wide_lanes import CONTEXT, wide_engine
from tests.host.http.conftest import World
from tests.host.http.test_replies import events
from tf_host.text import Text

PERSON = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Ann", "Bob", "naïve 🚀"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "tags", "ok"],
    "additionalProperties": False,
}


NO_SCHEMA = {"type": "json_schema", "json_schema": {"schema": 5}}


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


@pytest.fixture
def lanes_world(make_world: Callable[..., World], text: Text) -> Iterator[World]:
    with wide_engine(text.vocab, [FakeProposer(noise(1, text.vocab))]) as engine:
        yield make_world(engine=engine, context=CONTEXT)


def ids_of(world: World, **body: Any) -> tuple[list[int], str, dict[str, Any]]:
    answer = world.chat(return_token_ids=True, max_tokens=300, **body)
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    assert reply["choices"][0]["finish_reason"] == "stop", reply["choices"][0]["message"]["content"]
    return reply["choices"][0]["token_ids"], reply["choices"][0]["message"]["content"], reply["tf"]


def test_thirty_at_once_are_valid_and_equal_to_plain(lanes_world: World, text: Text) -> None:
    close = {str(token): 30 for token in text.encode('}"', special=False)}

    def ask(number: int, draft: bool) -> tuple[list[int], str, dict[str, Any]]:
        sampling = {"seed": number, "temperature": 0 if number % 3 else 0.9, "content": f"number {number}"}
        if number % 5 == 0:
            return ids_of(
                lanes_world, response_format={"type": "json_object"}, logit_bias=close, draft=draft, **sampling
            )
        return ids_of(lanes_world, response_format=schema_format(PERSON), draft=draft, **sampling)

    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        drafted = list(pool.map(lambda number: ask(number, True), range(30)))
        plain = list(pool.map(lambda number: ask(number, False), range(30)))
    for number, ((ids, content, tf), (plain_ids, _, plain_tf)) in enumerate(zip(drafted, plain, strict=True)):
        value = json.loads(content)
        assert isinstance(value, dict)
        if number % 5:
            assert set(value) == {"name", "age", "tags", "ok"}
            assert value["name"] in PERSON["properties"]["name"]["enum"]  # type: ignore[index]
            assert tf["sources"]["grammar"]["accepted"] > 0
        assert ids == plain_ids
        assert plain_tf["drafted"] == 0
    assert len({tuple(ids) for ids, *_ in drafted}) > 20
    kept = sum(tf["accepted"] for _, _, tf in drafted) / sum(len(ids) for ids, *_ in drafted)
    assert kept > 0.1


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("guided_choice", ["yes", "no"], {"yes", "no"}),
        ("guided_regex", "[ab]{2}", {"aa", "ab", "ba", "bb"}),
        ("guided_grammar", 'start: "x" | "y"', {"x", "y"}),
        ("guided_json", {"enum": [1, 2]}, {"1", "2"}),
        ("guided_json", '{"enum": [1, 2]}', {"1", "2"}),
        ("structured_outputs", {"choice": ["p", "q"]}, {"p", "q"}),
        ("structured_outputs", {"regex": "z"}, {"z"}),
        ("structured_outputs", {"json": {"const": "c"}}, {'"c"'}),
        ("structured_outputs", {"grammar": 'root ::= "g"'}, {"g"}),
        ("response_format", schema_format({"enum": ["s"]}), {'"s"'}),
    ],
)
def test_every_field_constrains_both_routes(lanes_world: World, field: str, value: Any, expected: set[str]) -> None:
    for seed in range(3):
        assert ids_of(lanes_world, seed=seed, **{field: value})[1] in expected
        completion = lanes_world.complete(seed=seed, max_tokens=50, **{field: value}).json()["choices"][0]
        assert completion["text"] in expected


def test_a_format_of_text_constrains_nothing(lanes_world: World) -> None:
    free = lanes_world.chat(max_tokens=20, temperature=0, return_token_ids=True).json()
    asked = lanes_world.chat(
        max_tokens=20, temperature=0, return_token_ids=True, response_format={"type": "text"}
    ).json()
    assert free["choices"] == asked["choices"]


def test_streamed_pieces_make_the_value(lanes_world: World) -> None:
    answer = lanes_world.chat(stream=True, max_tokens=300, seed=2, response_format=schema_format(PERSON))
    data = [line[6:] for line in answer.text.split("\n") if line.startswith("data: {")]
    deltas = [choice["delta"] for one in data for choice in json.loads(one)["choices"]]
    assert set(json.loads("".join(delta.get("content", "") for delta in deltas))) == set(PERSON["required"])


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": schema_format({"type": "foo"})}, "response_format"),
        ({"response_format": schema_format({"$ref": "#/nowhere"})}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": "json"}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}},
            "response_format.json_schema.schema",
        ),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": 5}, "guided_json"),
        ({"guided_regex": "["}, "guided_regex"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": [5]}, "guided_choice[0]"),
        ({"guided_grammar": "start: nothing"}, "guided_grammar"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "["}}, "structured_outputs.regex"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ],
)
def test_what_cannot_be_compiled_is_400(world: World, body: dict[str, Any], param: str) -> None:
    for answer in (world.chat(**body), world.complete(**body)):
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == param
    assert world.engine.requests == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"structured_outputs": {"structural_tag": "{}"}},
            ("'structured_outputs.structural_tag'", "json_object, regex"),
        ),
        ({"structured_outputs": {"zzz": 1}}, ("'structured_outputs.zzz'", "json_object, regex")),
        ({"structured_outputs": {"regex": "a", "zzz": 1}}, ("'structured_outputs.zzz'",)),
        ({"structured_outputs": {}}, ("'structured_outputs'", "json_object, regex")),
        ({"structured_outputs": {"json": None, "json_object": False}}, ("'structured_outputs'",)),
        (
            {"structured_outputs": {"json": {}, "regex": "a"}},
            ("'structured_outputs.json'", "'structured_outputs.regex'"),
        ),
        ({"response_format": {"type": "json_object", "schema": PERSON}}, ("'response_format.schema'", "json_schema")),
        ({"response_format": {"type": "text", "json_schema": {"schema": PERSON}}}, ("'response_format.json_schema'",)),
        (
            {"response_format": {"type": "json_object", "json_schema": {"schema": PERSON}}},
            ("'response_format.json_schema'",),
        ),
        ({"response_format": {"type": "json_schema", "schema": PERSON}}, ("'response_format.schema'", "json_schema")),
        ({"response_format": {"type": "json_schema", "json_schema": PERSON}}, ("'schema'",)),
    ],
)
def test_no_constraint_is_dropped(world: World, body: dict[str, Any], words: tuple[str, ...]) -> None:
    for answer in (world.chat(**body), world.complete(**body)):
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["param"].partition(".")[0] in body
        assert all(word in error["message"] for word in words)
        assert error["message"].count(words[0]) == 1
    assert world.engine.requests == []


def test_vllms_options_that_change_nothing_pass(lanes_world: World) -> None:
    form = {
        "regex": "z",
        "structural_tag": None,
        "disable_any_whitespace": True,
        "disable_additional_properties": False,
    }
    assert ids_of(lanes_world, structured_outputs=form)[1] == "z"
    free = {"type": "text", "json_schema": None}
    assert lanes_world.chat(max_tokens=2, response_format=free).status_code == 200


@pytest.mark.parametrize("value", ["<|im_end|>", "a<|im_end|>b", "<|im_start|>"])
def test_a_control_token_in_a_constraint_is_text(lanes_world: World, value: str) -> None:
    for draft in (True, False):
        assert ids_of(lanes_world, guided_choice=[value], draft=draft)[1] == value
        assert json.loads(ids_of(lanes_world, guided_json={"const": value}, draft=draft)[1]) == value


def test_a_constraint_that_grows_too_complex_is_the_requests_fault(lanes_world: World, text: Text) -> None:
    begin = {str(text.encode("b", special=False)[0]): 50}
    body = {"guided_regex": "b?a{1000000}", "logit_bias": begin, "max_tokens": 20}
    error = lanes_world.chat(**body).json()["error"]
    assert (error["code"], error["type"]) == ("grammar_failed", "invalid_request_error")
    assert error["message"] == "'guided_regex' is too complex to follow; make it simpler"
    assert error["param"] == "guided_regex"
    *_, last = events(lanes_world.chat(stream=True, **body))
    assert last["error"] == error
    assert lanes_world.client.get("/health").json()["last_error"] is None
    assert lanes_world.chat(max_tokens=2).status_code == 200

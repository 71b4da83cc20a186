"""Paths, models and errors outside of replies."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest

from tests.host.http.conftest import World
from tf_host.lanes import Snapshot
from tf_host.lanes.faults import Failures
from tf_host.text import Text


def error_of(answer: object, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text  # type: ignore[attr-defined]
    body: dict[str, dict[str, str]] = answer.json()  # type: ignore[attr-defined]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]


def test_models(world: World) -> None:
    listed = world.client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [one["id"] for one in listed["data"]] == ["tiny", "org/alias"]
    assert listed["data"][0]["max_model_len"] == 200
    assert world.client.get("/v1/models/org/alias").json()["id"] == "org/alias"
    error = error_of(world.client.get("/v1/models/other"), 404)
    assert error["code"] == "model_not_found"
    assert "tiny, org/alias" in error["message"]


def test_a_reply_goes_under_the_name_that_was_asked_for(world: World) -> None:
    assert world.chat(model="org/alias").json()["model"] == "org/alias"
    assert world.chat().json()["model"] == "tiny"


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
def test_an_unknown_model_is_404_with_the_names(world: World, route: str) -> None:
    body = {"model": "gpt-4", "prompt": "x", "messages": [{"role": "user", "content": "x"}]}
    error = error_of(world.client.post(route, json=body), 404)
    assert "gpt-4" in error["message"]
    assert "tiny, org/alias" in error["message"]
    assert error["param"] == "model"
    assert world.engine.requests == []


@pytest.mark.parametrize(
    "path",
    ["/v1/completions", "/v1/completions/", "/v1/completions?api-version=1", "/v1/completions/?a=b", "/completions"],
)
def test_paths_have_more_than_one_spelling(world: World, path: str) -> None:
    assert world.client.post(path, json={"prompt": "hi"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models/", "/models", "/v1/models?limit=5", "/health/"])
def test_reading_paths_too(world: World, path: str) -> None:
    assert world.client.get(path).status_code == 200


@pytest.mark.parametrize("noun", ["responses", "embeddings", "images/generations", "audio/speech", "files"])
def test_routes_that_are_not_served_say_so(world: World, noun: str) -> None:
    error = error_of(world.client.post(f"/v1/{noun}", json={}), 404)
    assert error["code"] == "not_served"
    assert "not served" in error["message"]


def test_errors_of_routing_have_the_same_form(world: World) -> None:
    assert error_of(world.client.get("/nothing"), 404)["code"] == "not_found"
    answer = world.client.get("/v1/completions")
    assert error_of(answer, 405)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_is_not_sent_as_json(world: World, kind: str) -> None:
    answer = world.client.post("/v1/completions", content=b'{"prompt": "hi"}', headers={"Content-Type": kind})
    assert "application/json" in error_of(answer, 415)["message"]


def test_a_compressed_body_is_415(world: World) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = world.client.post("/v1/completions", content=b'{"prompt": "hi"}', headers=headers)
    assert "Content-Encoding" in error_of(answer, 415)["message"]
    headers["Content-Encoding"] = "identity"
    assert world.client.post("/v1/completions", content=b'{"prompt": "hi"}', headers=headers).status_code == 200


def test_json_with_a_charset(world: World) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert world.client.post("/v1/completions", content=b'{"prompt": "hi"}', headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page.js", "/v1/models", "/models/", "/v1/models/tiny", "/metrics", "/health"])
def test_head_is_get_without_the_body(world: World, path: str) -> None:
    got, head = world.client.get(path), world.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]


def test_health(world: World) -> None:
    answer = world.client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")
    body = world.client.get("/health").json()
    assert body["status"] == "ok"
    assert body["parallel"] == 2
    assert body["system_fingerprint"] == "fp_test"
    world.engine.alive = False
    answer = world.client.get("/health")
    assert answer.status_code == 503
    assert answer.json()["status"] == "failed"


@pytest.mark.parametrize("failures", [{}, {"mine": Failures(3, "propose: ValueError: two\\nlines")}])
def test_health_shows_proposers_that_failed(world: World, failures: dict[str, Failures]) -> None:
    told = Snapshot(0, 0, 0, 4, 64, 0, 0, 0, 0, {}, {}, {}, 0, {}, None, failures)
    with mock.patch.object(world.engine, "snapshot", return_value=told):
        shown = world.client.get("/health").json()["failures"]
    assert shown == {name: {"count": each.count, "last": each.last} for name, each in failures.items()}


def test_chat_without_a_template_is_refused(make_world: Callable[..., World], bare_text: Text) -> None:
    world = make_world(text=bare_text)
    error = error_of(world.chat(), 400)
    assert error["code"] == "no_chat_template"
    assert "--chat-template FILE" in error["message"]
    assert world.complete().status_code == 200


def test_the_openapi_document_describes_the_bodies(world: World) -> None:
    document = world.client.get("/openapi.json").json()
    chat = document["paths"]["/v1/chat/completions"]["post"]
    schema = chat["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["messages"]
    assert {"temperature", "seed", "draft", "stop"} <= set(schema["properties"])
    assert "$ref" not in str(schema)
    assert {"400", "404", "413", "415", "503"} <= set(chat["responses"])

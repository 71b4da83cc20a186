"""``curl`` against the server, as people type it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.host.http.conftest import World
from tf_host.settings import ServerSettings

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")

JSON = ("-H", "Content-Type: application/json")


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world()
    world.says("once upon a time")
    return world


def curl(*args: str) -> tuple[int, str]:
    """Status and body of one call."""
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "30", "-w", "\n%{http_code}", *args], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_a_chat(world: World) -> None:
    body = '{"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}'
    status, reply = curl(f"{world.url}/v1/chat/completions", *JSON, "-d", body)
    assert status == 200
    assert json.loads(reply)["choices"][0]["message"]["content"] == "once upon a time"


def test_a_stream(world: World) -> None:
    body = '{"messages": [{"role": "user", "content": "hi"}], "stream": true}'
    status, reply = curl("-N", f"{world.url}/v1/chat/completions", *JSON, "-d", body)
    assert status == 200
    lines = [line.removeprefix("data: ") for line in reply.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "once upon a time"


def test_a_completion_and_its_tokens(world: World) -> None:
    _, reply = curl(f"{world.url}/tokenize", *JSON, "-d", '{"prompt": "hello"}')
    tokens = json.loads(reply)["tokens"]
    status, reply = curl(f"{world.url}/v1/completions", *JSON, "-d", json.dumps({"prompt": tokens, "max_tokens": 2}))
    assert status == 200
    assert json.loads(reply)["usage"]["prompt_tokens"] == len(tokens)


def test_get(world: World) -> None:
    assert json.loads(curl(f"{world.url}/v1/models")[1])["data"][0]["id"] == "tiny"
    assert json.loads(curl(f"{world.url}/health")[1])["status"] == "ok"
    assert "tf:" in curl(f"{world.url}/metrics")[1]
    assert curl("-I", f"{world.url}/v1/chat/completions")[0] == 405


def test_an_error_is_one_sentence(world: World) -> None:
    status, reply = curl(f"{world.url}/v1/completions", *JSON, "-d", '{"prompt": "hi", "temperature": "warm"}')
    assert status == 400
    assert json.loads(reply)["error"]["param"] == "temperature"
    # What curl sends when the header is forgotten.
    status, reply = curl(f"{world.url}/v1/completions", "-d", '{"prompt": "hi"}')
    assert status == 415
    assert "application/json" in json.loads(reply)["error"]["message"]


def test_a_key(make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(api_key="secret"))
    assert curl(f"{world.url}/v1/models")[0] == 401
    assert curl(f"{world.url}/v1/models", "-H", "Authorization: Bearer secret")[0] == 200

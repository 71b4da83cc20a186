"""A client that leaves is noticed at once, whatever its request is doing."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from tests.host.http.conftest import World

NOTICED_S = 0.05

STATES: dict[str, dict[str, Any]] = {
    "queue": {"queued": 30.0},
    "prompt": {"reading": 1000, "pause": 0.2},
    "decode": {"pause": 0.02},
}


def connect(world: World, path: str, body: dict[str, Any]) -> socket.socket:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", world.port))
    client.sendall(head.encode() + data)
    return client


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_leaving_cancels(world: World, path: str, state: str, stream: bool) -> None:
    world.says("hello " * 500, **STATES[state])
    body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "stream": stream, "ignore_eos": True}
    waits = []
    for _ in range(5):
        client = connect(world, path, body)
        while not world.engine.running:
            time.sleep(0.001)
        time.sleep(0.1)
        assert world.engine.running
        left = time.monotonic()
        client.close()
        assert world.engine.wait_idle()
        waits.append(max(world.engine.cancelled.values()) - left)
    # The machine may be busy once; a poll instead of an event would be late every time.
    assert sorted(waits)[2] < NOTICED_S
    world.says("hello")
    assert world.complete().json()["choices"][0]["text"] == "hello"


def test_a_client_that_stays_is_not_cancelled(world: World) -> None:
    world.says("hello", queued=0.3, pause=0.05)
    assert world.chat().status_code == 200
    assert world.chat(stream=True).text.endswith("[DONE]\n\n")
    assert world.engine.cancelled == {}


def test_leaving_before_the_body_is_there(world: World) -> None:
    client = socket.create_connection(("127.0.0.1", world.port))
    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    client.sendall(b"Content-Length: 100\r\n\r\n{")
    time.sleep(0.05)
    client.close()
    assert world.complete().status_code == 200
    assert len(world.engine.requests) == 1


def test_many_rounds_of_leaving(world: World) -> None:
    world.says("hello " * 100, pause=0.005)
    for turn in range(60):
        client = connect(world, "/v1/completions", {"prompt": "hi", "stream": bool(turn % 2), "ignore_eos": True})
        time.sleep(0.01 * (turn % 3))
        client.close()
    assert world.engine.wait_idle()
    traffic = world.app.state.traffic
    end = time.monotonic() + 5
    while traffic.requests and time.monotonic() < end:
        time.sleep(0.01)
    assert traffic.requests == 0
    assert world.complete(max_tokens=2).status_code == 200

"""What one client may take."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

import pytest

from tests.host.http.conftest import World
from tf_host.http import Limits
from tf_host.settings import ServerSettings

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture
def small(make_world: Callable[..., World]) -> World:
    settings = ServerSettings(max_body_mib=0.001)
    return make_world(settings=settings, limits=Limits(header_s=0.3, body_s=0.3, idle_s=1.0))


def closes_after(client: socket.socket, most: float) -> float:
    """Seconds until the server closes the connection."""
    begun = time.monotonic()
    client.settimeout(most)
    while client.recv(4096):
        pass
    return time.monotonic() - begun


def test_a_large_body_is_413(small: World) -> None:
    answer = small.complete("x" * 2000)
    assert answer.status_code == 413
    assert "--max-body-mib" in answer.json()["error"]["message"]
    assert small.complete("x" * 20).status_code == 200


def test_a_large_body_without_its_length_is_413(small: World) -> None:
    def chunks() -> object:
        for _ in range(20):
            yield b"x" * 100

    answer = small.client.post("/v1/completions", content=chunks(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_headers_that_do_not_come(small: World) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        assert closes_after(client, 3) < 2
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        begun = time.monotonic()
        with contextlib.suppress(OSError):  # broken pipe or reset, as the system likes
            for byte in HEAD * 50:  # a drop at a time does not buy more time
                client.sendall(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - begun < 2


def test_a_body_that_does_not_come(small: World) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        client.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        client.settimeout(3)
        assert b" 408 " in client.recv(4096)


def test_an_idle_connection_is_closed(small: World) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert 0.5 < closes_after(client, 5) < 3


def test_a_long_reply_is_no_idle_connection(small: World) -> None:
    small.says("hello", queued=1.5)
    assert small.complete().json()["choices"][0]["text"] == "hello"

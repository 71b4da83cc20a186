"""What one client may take."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from http.client import HTTPResponse

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
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == 408
        said = json.loads(answer.read())["error"]["message"]
        assert said == "the body did not arrive within 0.3 s; send it faster, or a shorter one"


GET = b"GET /health HTTP/1.1\r\nHost: x\r\n"
NO_HTTP = {
    "no request line": (b"hello\r\n\r\n", "first line is not 'METHOD PATH HTTP/1.1'"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n" * 2, "not TLS"),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", "no Host header"),
    "two hosts": (GET + b"Host: y\r\n\r\n", "more than one Host header"),
    "no header": (GET + b"nonsense\r\n\r\n", "'Name: value'"),
    "headers without an end": (GET + b"X: " + b"x" * 100_000, "larger than 16,384 bytes"),
    "no length": (HEAD + b"Content-Length: abc\r\n\r\n", "Content-Length is not a whole number"),
    "a length below 0": (HEAD + b"Content-Length: -5\r\n\r\n", "Content-Length is not a whole number"),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "two values of Content-Length"),
    "two ways": (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "sent together"),
    "two ways of a GET": (GET + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "sent together"),
    "another encoding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding must be chunked"),
    "a bad chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n", "its size in hexadecimal"),
    "a method of no letters": (b"G{T / HTTP/1.1\r\nHost: x\r\n\r\n", "'METHOD PATH HTTP/1.1'"),
}


@pytest.mark.parametrize(("sent", "words"), NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_gets_an_error_like_any_other(small: World, sent: bytes, words: str) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        client.sendall(sent)
        answer = HTTPResponse(client)
        answer.begin()
        body = answer.read()
    assert (answer.status, answer.getheader("Content-Type")) == (400, "application/json")
    assert answer.getheader("Connection") == "close"
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_http")
    assert words in error["message"]
    assert "; " in error["message"]  # the way out


def test_a_bad_chunk_after_the_response_closes_the_connection(small: World, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2_000 + b"\r\n")
        assert b" 413 " in client.recv(4096)
        client.sendall(b"nonsense\r\n")
        assert closes_after(client, 3) < 2
    assert not [record for record in caplog.records if record.exc_info]


def test_an_idle_connection_is_closed(small: World) -> None:
    with socket.create_connection(("127.0.0.1", small.port)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert 0.5 < closes_after(client, 5) < 3


def test_a_long_reply_is_no_idle_connection(small: World) -> None:
    small.says("hello", queued=1.5)
    assert small.complete().json()["choices"][0]["text"] == "hello"

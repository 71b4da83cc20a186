"""A signal lets replies finish; the exit is clean."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from tests.fakes.lanes import CountAdmission
from tests.fakes.model import FakeModel
from tests.fakes.wide_lanes import CONTEXT, wide_engine
from tests.host.http.conftest import World
from tf_host.requests import Delta, Failed, Handle
from tf_host.text import Text

PROGRAM = """
import sys, pathlib
from tests.fakes.tiny_tokenizer import byte_level
from tests.host.http.conftest import build
from tf_host.http import run
from tf_host.text import load_text

world = build(load_text(byte_level(pathlib.Path(sys.argv[1]))))
world.says("hello " * 30, rounds=1, pause=float(sys.argv[3]))
print(world.port, flush=True)
run(world.app, world.listener, grace_s=float(sys.argv[2]))
print("returned", flush=True)
"""


class Process:
    def __init__(self, folder: Path, grace_s: float, pause: float, command: Sequence[str] = ()) -> None:
        arguments = [*command, sys.executable, "-c", PROGRAM, str(folder), str(grace_s), str(pause)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        self.client = httpx.Client(base_url=self.url, timeout=20)
        self.answers: list[httpx.Response] = []
        while True:
            try:
                self.client.get("/health")
                break
            except httpx.TransportError:
                time.sleep(0.02)

    def ask(self, **body: object) -> threading.Thread:
        """A request in a thread of its own, under way when this returns."""

        def post() -> None:
            with contextlib.suppress(httpx.TransportError):  # the process is gone
                answer = httpx.post(f"{self.url}/v1/completions", json={"prompt": "hi", **body}, timeout=20)
                self.answers.append(answer)

        thread = threading.Thread(target=post)
        thread.start()
        while not self.client.get("/health").json().get("decoding"):
            time.sleep(0.01)
        return thread

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=20)
        return self.process.returncode, output


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    processes: list[Process] = []

    def make(*, grace_s: float, pause: float, command: Sequence[str] = ()) -> Process:
        processes.append(Process(tmp_path, grace_s, pause, command))
        return processes[-1]

    yield make
    for one in processes:
        one.client.close()
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.mark.parametrize(("sig", "stream"), [(signal.SIGTERM, True), (signal.SIGINT, False), (signal.SIGHUP, True)])
def test_running_replies_finish_and_new_ones_get_503(start: Callable[..., Process], sig: int, stream: bool) -> None:
    server = start(grace_s=15, pause=0.03)
    asking = server.ask(stream=stream)
    server.process.send_signal(sig)
    time.sleep(0.2)
    answer = httpx.post(f"{server.url}/v1/completions", json={"prompt": "hi"})  # on a new connection
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["error"]["code"] == "shutting_down"
    assert httpx.get(f"{server.url}/health").json()["status"] == "draining"
    asking.join()
    assert server.end() == (0, "returned\n")
    assert server.answers[0].status_code == 200
    text = server.answers[0].text
    assert text.endswith("data: [DONE]\n\n") if stream else '"finish_reason":"stop"' in text
    assert "shutting" not in text


@pytest.mark.parametrize("stream", [True, False])
def test_replies_past_the_grace_end_in_an_error(start: Callable[..., Process], stream: bool) -> None:
    server = start(grace_s=0.3, pause=1.0)
    asking = server.ask(stream=stream)
    time.sleep(1.2)
    begun = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    asking.join()
    assert server.end()[0] == 0
    assert time.monotonic() - begun < 4
    answer = server.answers[0]
    assert "shutting_down" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n") if stream else answer.status_code == 503


def test_a_closed_terminal_ends_nothing_under_nohup(start: Callable[..., Process]) -> None:
    server = start(grace_s=15, pause=0.03, command=("nohup",))
    server.process.send_signal(signal.SIGHUP)
    asking = server.ask(stream=False)
    asking.join()
    assert server.answers[0].status_code == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == (0, "returned\n")


def test_a_second_interrupt_ends_at_once(start: Callable[..., Process]) -> None:
    server = start(grace_s=60, pause=1.0)
    asking = server.ask(stream=True)
    server.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert server.process.poll() is None
    begun = time.monotonic()
    os.kill(server.process.pid, signal.SIGINT)
    assert server.end() == (130, "")
    assert time.monotonic() - begun < 2
    asking.join()


def test_an_idle_server_ends_soon(start: Callable[..., Process]) -> None:
    server = start(grace_s=60, pause=0)
    begun = time.monotonic()
    server.process.terminate()
    assert server.end() == (0, "returned\n")
    assert time.monotonic() - begun < 3


def under_way(world: World) -> None:
    """Waits for a request, and for it to come past what is looked at before its body."""
    while not world.app.state.traffic.requests:
        time.sleep(0.01)
    time.sleep(0.2)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_a_request_without_its_body_is_no_running_reply(
    make_world: Callable[..., World], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(grace_s=30)
    with socket.create_connection(("127.0.0.1", world.port)) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{"
        client.sendall(head.encode())
        under_way(world)
        begun = time.monotonic()
        world.server.stop()
        client.settimeout(10)
        answer = HTTPResponse(client)
        answer.begin()
        error = json.loads(answer.read())["error"]
    world.thread.join(10)
    assert not world.thread.is_alive()
    assert time.monotonic() - begun < 2
    assert (answer.status, error["code"], error["type"]) == (503, "shutting_down", "server_error")
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_what_uvicorn_cuts_gets_an_error_like_any_other(
    make_world: Callable[..., World], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr("tf_host.http.routes.read_body", late)
    world = make_world(grace_s=0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = pool.submit(world.complete)
        under_way(world)
        world.server.stop()
        answer = asking.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert not [record for record in caplog.records if record.exc_info]


def test_a_shutdown_says_what_it_waits_for(make_world: Callable[..., World], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def stopped(replies: int) -> list[str]:
        caplog.clear()
        world = make_world(grace_s=4)
        world.says("hello " * 30, queued=0.5)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for _ in range(replies):
                pool.submit(world.complete)
            while world.app.state.traffic.replies < replies:
                time.sleep(0.01)
            world.server.stop()
        world.thread.join(10)
        return [record.getMessage() for record in caplog.records if record.name.startswith(("tf_host", "uvicorn"))]

    assert stopped(0) == ["shutting down: no reply is running"]
    assert stopped(1) == ["shutting down: 1 reply has up to 4 s to finish"]
    assert stopped(2) == ["shutting down: 2 replies have up to 4 s to finish"]


@pytest.mark.parametrize("stream", [True, False])
def test_the_log_does_not_call_a_cut_reply_the_clients_leaving(
    make_world: Callable[..., World], text: Text, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def slow(model: FakeModel) -> None:
        model.on_verify = lambda windows: time.sleep(0.02)

    with wide_engine(text.vocab, admission=CountAdmission(parallel=1), prepare=slow) as engine:
        world = make_world(engine=engine, context=CONTEXT, grace_s=0.3)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asking = [
                pool.submit(world.complete, [5] * 20, max_tokens=900, ignore_eos=True, stream=stream) for _ in range(2)
            ]
            while (told := world.client.get("/health").json())["decoding"] + told["waiting"] < 2:
                time.sleep(0.01)
            world.server.stop()
            world.thread.join(10)
        engine.stop(0.0)
    assert all("shutting_down" in one.result().text for one in asking)
    ends = [record.getMessage() for record in caplog.records if record.name == "tf_host.lanes"]
    assert len(ends) == 2
    assert all(": error (the server is shutting down), " in end for end in ends), ends


@pytest.mark.parametrize("cut", [True, False])
def test_only_a_reply_that_was_not_cut_is_cancelled_by_the_end_of_the_loop(cut: bool) -> None:
    loop = asyncio.new_event_loop()
    handle = Handle(loop)
    if cut:
        handle.send(Failed("the server is shutting down", "shutting_down", 503))
    loop.close()
    handle.send(Delta("", ()))
    assert handle.cancelled is not cut


def test_stopping_from_another_thread(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.says("hello")
    assert world.complete().status_code == 200
    world.server.stop()
    world.thread.join(5)
    assert not world.thread.is_alive()

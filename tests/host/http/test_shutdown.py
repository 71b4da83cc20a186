"""A signal lets replies finish; the exit is clean."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.host.http.conftest import World

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
    def __init__(self, folder: Path, grace_s: float, pause: float) -> None:
        arguments = [sys.executable, "-c", PROGRAM, str(folder), str(grace_s), str(pause)]
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

    def make(*, grace_s: float, pause: float) -> Process:
        processes.append(Process(tmp_path, grace_s, pause))
        return processes[-1]

    yield make
    for one in processes:
        one.client.close()
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.mark.parametrize(("sig", "stream"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
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


def test_stopping_from_another_thread(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.says("hello")
    assert world.complete().status_code == 200
    world.server.stop()
    world.thread.join(5)
    assert not world.thread.is_alive()

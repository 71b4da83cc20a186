from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes import tiny_tokenizer
from tests.fakes.scripted_engine import Script, ScriptedEngine
from tf_host.http import Limits, Served, Server, make_app
from tf_host.settings import ServerSettings
from tf_host.text import Text, load_text
from tf_plugins.types import Refusal, RequestFacts

CONTEXT = 200


class OpenGate:
    """Plugins that object to what ``refuse`` says."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.refuse: Callable[[RequestFacts], Refusal | None] = lambda _: None
        self.seen: list[RequestFacts] = []

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        self.seen.append(request)
        return self.refuse(request)


class World:
    """A running server on loopback, and what it runs on."""

    def __init__(self, served: Served, grace_s: float) -> None:
        self.served = served
        self.app = make_app(served)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = Server(self.app, grace_s)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.client = httpx.Client(base_url=self.url, timeout=20)

    @property
    def engine(self) -> ScriptedEngine:
        engine = self.served.engine
        assert isinstance(engine, ScriptedEngine)
        return engine

    @property
    def gate(self) -> OpenGate:
        gate = self.served.plugins
        assert isinstance(gate, OpenGate)
        return gate

    def says(self, text: str, **script: Any) -> None:
        """What the model says from now on."""
        self.engine.script = Script(self.served.text.encode(text, special=False), **script)

    def chat(self, content: Any = "hi", **body: Any) -> httpx.Response:
        messages = [{"role": "user", "content": content}]
        return self.client.post("/v1/chat/completions", json={"messages": messages, **body})

    def complete(self, prompt: Any = "hi", **body: Any) -> httpx.Response:
        return self.client.post("/v1/completions", json={"prompt": prompt, **body})

    def start(self) -> None:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        self.client.close()
        self.server.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp("chatml")))


@pytest.fixture(scope="session")
def bare_text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp("bare"), template=None))


def build(
    text: Text,
    settings: ServerSettings | None = None,
    limits: Limits | None = None,
    *,
    grace_s: float = 5.0,
    **served: Any,
) -> World:
    """A server that is not started."""
    facts = {
        "engine": ScriptedEngine(),
        "text": text,
        "settings": settings or ServerSettings(),
        "plugins": OpenGate(),
        "names": ("tiny", "org/alias"),
        "fingerprint": "fp_test",
        "context": CONTEXT,
        "vocab": text.vocab,
        "limits": limits or Limits(),
    }
    return World(Served(**(facts | served)), grace_s)


@pytest.fixture
def make_world(text: Text) -> Iterator[Callable[..., World]]:
    """Starts servers; every one is stopped at the end of the test."""
    worlds: list[World] = []

    def make(**facts: Any) -> World:
        world = build(**({"text": text} | facts))
        worlds.append(world)
        world.start()
        return world

    yield make
    for world in worlds:
        world.stop()


@pytest.fixture(scope="session")
def shared_world(text: Text) -> Iterator[World]:
    world = build(text)
    world.start()
    yield world
    world.stop()


@pytest.fixture
def world(shared_world: World) -> World:
    """One server for all tests, its engine and plugins as new."""
    shared_world.engine.reset()
    shared_world.gate.reset()
    shared_world.says("Hello, world! once upon a time")
    return shared_world


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text("first\nsecond\n")
    file.chmod(0o600)
    return file

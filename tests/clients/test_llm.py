"""The ``llm`` command (PyPI: llm) with the server as an OpenAI-compatible endpoint."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.http.conftest import World
from tf_host.settings import ServerSettings

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llm") is None, reason="needs the package llm")

SAYS = "Hello, world! once upon a time"


class Llm:
    """The command, with a folder of its own for settings and logs."""

    def __init__(self, folder: Path, world: World, **facts: str) -> None:
        self.world = world
        self._folder = folder
        # What a user writes; JSON is YAML.
        model = {
            "model_id": "here",
            "model_name": "tiny",
            "api_base": f"{world.url}/v1",
            "supports_schema": True,
            **facts,
        }
        (folder / "extra-openai-models.yaml").write_text(json.dumps([model]))

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "llm", *args],
            capture_output=True,
            text=True,
            timeout=120,
            # Other plugins of llm, which may be installed, are left out.
            env={**os.environ, "LLM_USER_PATH": str(self._folder), "LLM_LOAD_PLUGINS": ""},
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")


@pytest.fixture
def llm(make_world: Callable[..., World], tmp_path: Path) -> Llm:
    world = make_world(context=1000)
    world.says(SAYS)
    return Llm(tmp_path, world)


def test_a_prompt_streamed_and_not(llm: Llm) -> None:
    assert llm("-m", "here", "hi") == SAYS
    assert llm("-m", "here", "--no-stream", "hi") == SAYS
    assert [request.max_tokens > 0 for request in llm.world.engine.requests] == [True, True]


def test_options_reach_the_engine(llm: Llm) -> None:
    llm("-m", "here", "-s", "be brief", "-o", "temperature", "0", "-o", "seed", "7", "-o", "max_tokens", "5", "hi")
    request = llm.world.engine.requests[-1]
    assert (request.sampling.temperature, request.sampling.seed, request.max_tokens) == (0, 7, 5)
    assert "system\nbe brief" in llm.world.served.text.decode(request.prompt)


def test_a_conversation_goes_on(llm: Llm) -> None:
    llm("-m", "here", "one")
    llm("-c", "two")
    prompt = llm.world.served.text.decode(llm.world.engine.requests[-1].prompt)
    assert prompt.index("one") < prompt.index(SAYS) < prompt.index("two")


def test_a_schema(llm: Llm) -> None:
    pytest.importorskip("llguidance")
    llm.world.says('{"age": 3}')
    assert json.loads(llm("-m", "here", "--schema", "age int", "a dog")) == {"age": 3}
    assert llm.world.engine.requests[-1].grammar is not None


def test_a_key(make_world: Callable[..., World], tmp_path: Path) -> None:
    world = make_world(settings=ServerSettings(api_key="secret"))
    world.says(SAYS)
    assert Llm(tmp_path, world, api_key_name="here")("-m", "here", "--key", "secret", "hi") == SAYS

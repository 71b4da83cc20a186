"""Third-party plugins that fail: at start they stop the start and are named; later they change no reply."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.serving import Client, serving
from tests.examples.installing import bytes_model, entry_points, environment, run

SOURCE = """
import json
import time

from tests.testing.good import Echo
from tf_host.testing.family import ByteFamily
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Draft, Growth


class AtStart(Plugin):
    api_version = 1

    def __init__(self, settings):
        raise RuntimeError("no licence file")

    @hookimpl
    def families(self):
        return ()


class InHook(Plugin):
    api_version = 1

    @hookimpl
    def proposers(self, target):
        raise RuntimeError("no weights")


class Rubbish(Plugin):
    api_version = 1

    @hookimpl
    def proposers(self, target):
        return ("rubbish",)


class House(ByteFamily):
    name = "house"

    def recognises(self, folder):
        return json.loads((folder / "config.json").read_text())["house_version"] > 1


class Hasty(Plugin):
    api_version = 1

    @hookimpl
    def families(self):
        return (House(),)


def proposing(label, propose):
    class Proposer(Echo):
        name = label

    Proposer.propose = propose

    class Made(Plugin):
        api_version = 1

        @hookimpl
        def proposers(self, target):
            return (Proposer(),)

    return Made


def raises(self, requests):
    raise RuntimeError("planted")


def sleeps(self, requests):
    time.sleep(0.02)
    return Echo.propose(self, requests)


def leaves(self, requests):
    raise SystemExit(3)


class Boundless(Echo):
    name = "boundless"

    def growth(self, context, tokens):
        return Growth(10**15 if context else 0)

    def costs(self):
        return None


class Unsized(Echo):
    name = "unsized"

    def growth(self, context, tokens):
        return None


def giving(thing):
    class Made(Plugin):
        api_version = 1

        @hookimpl
        def proposers(self, target):
            return (thing,)

    return Made


Lies = giving(Boundless())
Growing = giving(Unsized())
Classy = giving(Echo)
Raises = proposing("raises", raises)
Leaves = proposing("leaves", leaves)
TooHigh = proposing("too-high", lambda self, requests: [Draft((10**6,)) for _ in requests])
TooMany = proposing("too-many", lambda self, requests: [Draft((97,) * 99) for _ in requests])
TooFew = proposing("too-few", lambda self, requests: [])
Letters = proposing("letters", lambda self, requests: ["abc" for _ in requests])
Sleeps = proposing("sleeps", sleeps)


class Watches(Plugin):
    api_version = 1

    @hookimpl
    def round_done(self, round):
        raise RuntimeError("planted")

    @hookimpl
    def stream_done(self, stream):
        raise RuntimeError("planted")
"""

LATE = {
    "leaves": "proposer 'leaves' failed in propose; its streams go on without its drafts (plugin 'leaves', tf-broken",
    "lies": "proposer 'boundless' failed in growth",
    "raises": "proposer 'raises' failed in propose",
    "too-high": "proposer 'too-high': a draft was dropped: id 1000000 of 258",
    "too-many": "proposer 'too-many': a draft was dropped: 99 tokens of at most",
    "too-few": "proposer 'too-few' failed in propose",
    "letters": "proposer 'letters' failed in propose",
    "watches": "plugin 'watches' (tf-broken 0.1) failed in round_done: RuntimeError: planted",
    "sleeps": None,
}
"""Plugins in use that do wrong once they serve, and how the log names them; sleeping is no fault to log."""

PROMPTS = ("one two three four, one two three four, one two", "z", "def f(x):\n    return x\n\ndef f(y):\n")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    target = tmp_path_factory.mktemp("installed")
    (target / "tf_broken.py").write_text(SOURCE)
    (target / "tf_broken_import.py").write_text('raise OSError("libbroken.so is missing")\n')
    names = {
        "at-start": "AtStart",
        "in-hook": "InHook",
        "rubbish": "Rubbish",
        "growing": "Growing",
        "classy": "Classy",
        "hasty": "Hasty",
        "watches": "Watches",
    }
    names |= {name: name.title().replace("-", "") for name in LATE}
    lines = [f"{name} = tf_broken:{value}" for name, value in names.items()]
    entry_points(target, "tf-broken", "\n".join([*lines, "at-import = tf_broken_import:Nothing"]))
    bytes_model(target)
    return environment(target, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize(
    ("name", "hook", "cause", "placed"),
    [
        ("at-import", "import", "tf_broken_import:Nothing: OSError: libbroken.so is missing", True),
        ("at-start", "start", "RuntimeError: no licence file", True),
        ("hasty", "recognises", "family 'house': KeyError: 'house_version'", True),
        ("in-hook", "proposers", "RuntimeError: no weights", True),
        ("rubbish", "proposers", "its str is no Proposer: it has no name", False),
        ("growing", "growth", "proposer 'unsized': TypeError: its NoneType is no Growth", False),
        ("classy", "proposers", "its Echo is a class and not an object", False),
    ],
)
def test_a_failure_at_start_stops_the_start(
    name: str, hook: str, cause: str, placed: bool, env: dict[str, str], tmp_path: Path
) -> None:
    settings = tmp_path / "serve.toml"
    settings.write_text(f'model = "bytes"\nport = 0\nuse_plugins = ["{name}", "bytes"]\ncpu_blas = "none"\n')
    output = run("-m", "tf_host.cli.serve", "--settings", settings, cwd=tmp_path, env=env, status=1)
    place = r" \(line \d+ of \S+tf_broken\w*\.py\)" if placed else ""
    assert re.search(re.escape(f"plugin '{name}' (tf-broken 0.1) failed in {hook}: {cause}") + place + "\n", output)
    assert "hint: " in output
    assert "Traceback" not in output.rpartition(f"failed in {hook}")[2]


@pytest.fixture(scope="module")
def plain(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[int]]]:
    log = tmp_path_factory.mktemp("plain") / "log"
    with serving("bytes", "--use-plugins", "bytes", log=log, env=env, wait_s=120) as client, closing(client.http):
        yield _replies(client)


def test_a_failure_while_serving_changes_no_reply(plain: list[list[int]], env: dict[str, str], tmp_path: Path) -> None:
    flags = ("bytes", "--use-plugins", ",".join(["bytes", *LATE]), "--draft-depth", "4")
    log = tmp_path / "log"
    with serving(*flags, log=log, env=env, wait_s=120) as client, closing(client.http):
        assert _replies(client) == plain
        health, metrics = client.health(), client.http.get("/metrics").text
    assert health["status"] == "ok"
    failed = {line.split("'")[1] for line in LATE.values() if line and line.startswith("proposer ")}
    assert health["failures"].keys() == failed
    for name, told in health["failures"].items():
        assert f'tf:proposer_failures_total{{source="{name}"}} {float(told["count"])}\n' in metrics
    for line in LATE.values():
        assert line is None or line in log.read_text()


def _replies(client: Client) -> list[list[int]]:
    return [
        client.complete(prompt, max_tokens=24, temperature=temperature, seed=5).ids
        for prompt in PROMPTS
        for temperature in (0, 0.8)
    ]

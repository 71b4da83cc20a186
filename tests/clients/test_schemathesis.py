"""schemathesis over the server's own OpenAPI document."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.http.conftest import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="needs the package schemathesis"),
]


def run(world: World, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{world.url}/openapi.json", "--no-color", *args]
    # In a folder of its own: it reads settings from, and writes reports to, the one it is started in.
    return subprocess.run(command, capture_output=True, text=True, timeout=580, cwd=folder, env={**os.environ})


def test_nothing_is_the_servers_fault(make_world: Callable[..., World], tmp_path: Path) -> None:
    """Bodies that fit the schemas and bodies that do not: statuses, headers and errors are as the document says.

    Left out is that every body which fits its schema is served: that a seed needs no decimals is in the schema, that
    a prompt fits the context is not.
    """
    world = make_world()
    world.says("once upon a time")
    done = run(
        world, tmp_path, "--exclude-checks", "positive_data_acceptance", "--max-examples", "6", "--seed", "1",
        "--suppress-health-check", "all",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "8 selected / 8 total" in done.stdout, "every route of the document"


def test_a_503_says_when_to_come_back(make_world: Callable[..., World], tmp_path: Path) -> None:
    """The one intended 5xx: 503, documented, with Retry-After."""
    world = make_world()
    world.app.state.traffic.draining = True
    try:
        answer = world.complete()
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        done = run(
            world, tmp_path, "--include-path", "/v1/completions", "--checks", "status_code_conformance",
            "--phases", "fuzzing", "--max-examples", "5", "--seed", "1",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
    finally:
        world.app.state.traffic.draining = False

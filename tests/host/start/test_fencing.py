"""A proposer that cannot say what a stream takes stops the start, with its plugin's name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.proposers import FakeProposer, always
from tf_host.plugins import Found
from tf_host.start.fencing import fenced
from tf_plugins import PluginError
from tf_plugins.types import Growth

HOUSE = Found("house", EntryPoint("house", "house:Mine", "tf_plugins"), "dist-house", "1.0")
PLUGINS: Any = SimpleNamespace(giver={"fake": HOUSE}.__getitem__)


def exits(*_: object) -> Growth:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("growth", "cause"),
    [
        (exits, "SystemExit: 3"),
        (lambda context, tokens: None, "TypeError: its NoneType is no Growth"),
        (lambda context, tokens: Growth(-tokens), "ValueError: -64 is less than nothing"),
        (lambda context, tokens: Growth(10**15), f"ValueError: {10**15} bytes for a stream do not fit the 1000"),
    ],
)
def test_a_growth_that_fails_stops_the_start(
    growth: Callable[..., Growth], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    proposer, owned, released = FakeProposer(always(1)), ExitStack(), []
    proposer.growth = growth  # type: ignore[method-assign]
    proposer.release = lambda: released.append("fake")  # type: ignore[method-assign]
    with pytest.raises(PluginError) as caught, owned:
        fenced(PLUGINS, [proposer], owned, 64, 1_000)
    said = f"plugin 'house' (dist-house 1.0) failed in growth: proposer 'fake': {cause}"
    assert str(caught.value).startswith(said)
    assert (released, caplog.records) == (["fake"], [])


def test_the_first_is_released_first() -> None:
    released: list[str] = []
    proposers = [FakeProposer(always(1), name) for name in ("one", "other")]
    for proposer in proposers:
        proposer.release = lambda name=proposer.name: released.append(name)  # type: ignore[method-assign]
    with ExitStack() as owned:
        fenced(SimpleNamespace(giver=lambda name: HOUSE), proposers, owned, 64, 1_000)  # type: ignore[arg-type]
    assert released == ["one", "other"]


def test_failures_name_the_plugin(caplog: pytest.LogCaptureFixture) -> None:
    [fence] = fenced(PLUGINS, [proposer := FakeProposer(always(1))], ExitStack(), 64, 1_000)
    assert (fence.fresh(64), fence.failures.count) == (64, 0)
    proposer.raises = "growth"
    fence.fresh(64)
    assert "its streams go on without its drafts (plugin 'house', dist-house 1.0)\n" in caplog.text

"""Observers: what one does is felt by no other, and not by the server."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from tests.host.plugins.test_facade import plugins
from tf_plugins.testing import request_facts
from tf_plugins.types import RoundDone, StreamDone

ROUND = RoundDone(1, 4, 4, 0.1, {"copy": 3}, {"copy": 1})
STREAM = StreamDone("r1", "stop", 5, 0, (1, 2), 1, 0.1, {"copy": 3}, {"copy": 1})
EVENTS: dict[str, Any] = {"round_done": ROUND, "stream_done": STREAM}


@pytest.mark.parametrize("hook", ["round_done", "stream_done"])
@pytest.mark.parametrize("error", [ValueError("bad day"), SystemExit(3), KeyboardInterrupt()])
def test_what_an_observer_raises_goes_no_further(
    hook: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    asked = plugins(a={hook: error}, b={hook: told.append})
    for _ in range(2):
        getattr(asked, hook)(EVENTS[hook])
    assert told == [EVENTS[hook]] * 2
    assert caplog.text.count(f"plugin 'a' (dist-a 1.0) failed in {hook}: {type(error).__name__}") == 1
    assert "Traceback" in caplog.text


def test_each_kind_of_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    errors = [ValueError(1), ValueError(2), KeyError(3)] * 2

    def fail(event: Any) -> None:
        raise errors.pop()

    asked = plugins(a={"round_done": fail, "stream_done": fail})
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            asked.round_done(ROUND)
        for _ in range(3):
            asked.stream_done(STREAM)
    assert len(caplog.records) == 4


@pytest.mark.parametrize("hook", ["round_done", "stream_done"])
def test_an_observer_changes_nothing_for_the_next(hook: str) -> None:
    def forge(event: Any) -> None:
        event.drafted["copy"] = 10**9
        event.kept["mine"] = 1

    told: list[Any] = []
    event = copy.deepcopy(EVENTS[hook])
    getattr(plugins(a={hook: forge}, b={hook: told.append}), hook)(event)
    assert (told, event) == ([EVENTS[hook]], EVENTS[hook])


@pytest.mark.parametrize(
    ("hook", "facts"), [("refuse_request", request_facts()), ("round_done", ROUND), ("stream_done", STREAM)]
)
def test_a_slow_hook_is_worth_a_line(
    hook: str, facts: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = plugins(slow={hook: None}, quick={hook: None})
    monkeypatch.setattr("tf_host.plugins.facade.SLOW_S", 1e9)
    getattr(asked, hook)(facts)
    assert caplog.messages == []
    monkeypatch.setattr("tf_host.plugins.facade.SLOW_S", 0.0)
    for _ in range(2):
        getattr(asked, hook)(facts)
    said = f"plugin '{{}}' took 0.0 s in {hook}, and "
    assert [line.startswith(said.format(name)) for name, line in zip(("slow", "quick"), caplog.messages, strict=True)]

"""When clients are told of their tokens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.lanes import Sink, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, oracle
from tf_host.requests import Delta, Done

WANTED = request([1, 2, 3], 30)
REPLY = naive(WANTED)[0]


class Logged(Sink):
    """Notes what it is sent where others note what they do."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self._log = log

    def send(self, event: Any) -> None:
        self._log.append(type(event).__name__)
        super().send(event)


@pytest.mark.parametrize("drafts", [False, True])
def test_of_a_round_s_tokens_they_are_told_while_the_next_one_runs(
    drafts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    model, verify = FakeModel(), FakeModel.verify
    monkeypatch.setattr(FakeModel, "verify", lambda *given: log.append("round") or verify(*given))
    proposers = [FakeProposer(oracle({WANTED.prompt: REPLY}))] if drafts else []
    lanes, sink = make_lanes(model, proposers=proposers), Logged(log)
    lanes.submit(WANTED, sink)
    while lanes.step():
        pass
    assert sink.tokens == REPLY
    log = [what for what in log if what in ("round", "Delta", "Done")]
    rounds = log.count("round")
    # The first ones at once: nobody waits longer for a reply to begin.
    assert log == ["round", "Delta", "round", *["round", "Delta"] * (rounds - 2), "Delta", "Done"]


def test_before_a_prompt_is_read_they_are_told_at_once() -> None:
    lanes, first, second = make_lanes(FakeModel()), Sink(), Sink()
    lanes.submit(WANTED, first)
    while lanes.snapshot().rounds < 2:
        lanes.step()
    assert sum(isinstance(event, Delta) for event in first.events) == 1
    lanes.submit(request([5] * 200, 4), second)
    lanes.step()
    assert sum(isinstance(event, Delta) for event in first.events) >= 2
    while lanes.step():
        pass
    assert isinstance(first.events[-1], Done)
    assert first.tokens == REPLY


@pytest.mark.parametrize("end", ["close and end", "fail"])
def test_whatever_ends_a_stream_what_it_has_is_sent_before(end: str) -> None:
    lanes, sink = make_lanes(FakeModel()), Sink()
    lanes.submit(WANTED, sink)
    while lanes.snapshot().rounds < 2:
        lanes.step()
    told = lanes.snapshot().tokens
    if end == "fail":
        lanes.fail_all(RuntimeError("planted"))
    else:
        lanes.close()
        lanes.end_all()
    assert sink.tokens == REPLY[:told]
    assert sink.failed is not None

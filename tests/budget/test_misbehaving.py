"""Proposers that misbehave cost no stream its place."""

from __future__ import annotations

import pytest

from tests.budget.fakes import FakeDrafter, FakeStates, Recorder, Slot, Target, admission
from tf_llama.budget.ledger import DRAFTERS, KEPT, STATES, STREAMS

GIB = 1 << 30


class Broken(FakeDrafter):
    """Fails in what admission asks of it."""

    def kept(self) -> int:
        raise RuntimeError("planted in kept")

    def shed(self, room: int) -> int:
        raise RuntimeError("planted in shed")


def test_a_proposer_that_fails_costs_no_stream_its_place(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), Broken(recorder)
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states, lambda tokens: 5)
    assert admits.admit(target.demand(1, 4, 1, key="1"))
    assert admits.admit(target.demand(2, 4, 1, key="2"))
    target.end(1, admits)
    target.end(2, admits)
    assert admits.used() == {STREAMS: 0, DRAFTERS: 0, KEPT: 0, STATES: 0}
    assert [record.getMessage() for record in caplog.records] == [
        "proposer 'drafter' failed in kept; what it keeps is not counted"
    ]


class Hoarder(FakeDrafter):
    """Sheds nothing."""

    def shed(self, room: int) -> int:
        self.sheds += 1
        return 1_000


def test_a_proposer_that_sheds_nothing_is_not_asked_for_ever() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), Hoarder(recorder)
    drafter.keep(Slot("old", 8, 4))
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states, lambda tokens: 5)
    assert not admits.admit(target.demand(1, 4, 1))
    assert drafter.sheds == 1
    assert admits.used()[STREAMS] == 0

"""Proposers that misbehave cost no stream its place."""

from __future__ import annotations

from tests.budget.fakes import FakeDrafter, FakeStates, Recorder, Slot, Target, admission
from tf_llama.budget.ledger import STREAMS


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

"""Prompt states that a stream would keep: reserved at admission, or skipped."""

from __future__ import annotations

import pytest

from tests.budget.fakes import FakeDrafter, FakeState, FakeStates, Recorder, Target, admission

GIB = 1 << 30


def test_states_to_keep_are_reserved_or_skipped() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states)
    # 6 leave 4: the most wanted of 3 fits, the next of 2 does not, the last of 1 does.
    assert admits.admit(target.demand(1, 6, 0, keep=(3, 2, 1)))
    assert admits.reserved() == 4
    assert admits.keep(1, 1)
    assert not admits.keep(1, 4)
    assert admits.keep(1, 3)
    assert not admits.keep(1, 1), "each reservation is for one state"
    assert not admits.keep(2, 1)
    assert admits.reserved() == 0


def test_a_state_takes_no_other_promise_than_its_own() -> None:
    """Saves come in the order of their positions, the smallest first, and the largest is the most wanted."""
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    admits = admission(10, drafter, states)
    assert admits.admit(Target(recorder, drafter).demand(1, 5, 0, keep=(4, 3, 2)))
    assert [admits.keep(1, nbytes) for nbytes in (2, 3, 4)] == [False, False, True]


@pytest.mark.parametrize(("keep", "left"), [((2,), ["restored"]), ((3, 1), [])])
def test_older_states_give_way_to_the_ones_to_keep(keep: tuple[int, ...], left: list[str]) -> None:
    """The entry that the stream started from too, once it is copied: its longer successor is worth more."""
    recorder = Recorder()
    restored = FakeState(2, "restored")
    states, drafter = FakeStates(recorder, FakeState(3, "old"), restored), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    target.states = states
    admits = admission(10, drafter, states)
    assert admits.admit(target.demand(1, 5, 0, restore=restored, keep=keep))
    assert target.restored == [restored]
    assert [entry.name for entry in states.entries] == left
    assert admits.reserved() == sum(keep)


def test_a_promise_to_keep_gives_way_to_a_stream() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states)
    assert admits.admit(target.demand(1, 4, 0, key="1", keep=(3, 2)))
    assert admits.reserved() == 5
    assert admits.admit(target.demand(2, 3, 0, key="2"))
    assert admits.reserved() == 3
    assert admits.keep(1, 3)
    assert not admits.keep(1, 2)


def test_promises_end_with_their_stream() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states)
    assert admits.admit(target.demand(1, 4, 0, keep=(3,)))
    target.end(1, admits)
    assert admits.reserved() == 0
    assert not admits.keep(1, 3)


@pytest.mark.parametrize(("limit", "reserved"), [(0, 0), (2, 0), (3, 3), (None, 3)])
def test_the_limit_of_prompt_states_holds(limit: int | None, reserved: int) -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(10, drafter, states, states_limit=limit)
    assert admits.admit(target.demand(1, 4, 0, keep=(3,)))
    assert admits.reserved() == reserved

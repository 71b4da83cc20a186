"""Admission's order, followed by an allocation recorder; each rule has a control that breaks it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.budget.fakes import FakeDrafter, FakeState, FakeStates, Recorder, Slot, Target, admission
from tf_llama.budget.admission import StreamAdmission
from tf_llama.budget.ledger import DRAFTERS, KEPT, STATES, STREAMS, Ledger, LedgerError
from tf_plugins.types import Demand

GIB = 1 << 30


@dataclass
class Shape:
    """8 GiB: a kept drafter cache of 1, kept states of 3 (the entry to restore of 1 and four of 0.5)."""

    recorder: Recorder
    states: FakeStates
    drafter: FakeDrafter
    target: Target
    restore: FakeState

    def admission(self, kind: type[StreamAdmission] = StreamAdmission) -> StreamAdmission:
        return admission(8 * GIB, self.drafter, self.states, lambda tokens: 5 * GIB, kind=kind)

    def demand(self, cache: int = 3 * GIB, **more: object) -> Demand:
        """A stream of 3 GiB whose drafter cache grows to 2 with a copy of 0.5."""
        return self.target.demand(1, cache, 2 * GIB, restore=self.restore, **more)  # type: ignore[arg-type]


@pytest.fixture
def shape() -> Shape:
    return make_shape()


def make_shape(restore_bytes: int = GIB) -> Shape:
    recorder = Recorder()
    restore = FakeState(restore_bytes, "restore")
    # The entry to restore is the least recently used: only protection keeps it.
    states = FakeStates(recorder, restore, *(FakeState(GIB // 2, f"other {n}") for n in range(4)))
    drafter = FakeDrafter(recorder)
    drafter.keep(Slot("a", GIB, GIB // 2))
    target = Target(recorder, drafter)
    target.states = states
    return Shape(recorder, states, drafter, target, restore)


# Controls: the same object with one step moved or one byte kept.


class Unchecked(Ledger):
    """Books whatever it is asked, so that a control's peak is seen by the recorder."""

    def take(self, amounts):  # type: ignore[no-untyped-def]
        self._add(amounts)


class AllocatesFirst(StreamAdmission):
    def admit(self, demand: Demand) -> bool:
        growth = self._fit(demand)
        assert growth is not None
        room = self._room(demand, growth)
        self._make(demand, growth, demand.restore)
        self._trim(room, self._protect(demand, room))
        return True


class UncheckedAllocatesFirst(AllocatesFirst):
    def __init__(self, *args) -> None:  # type: ignore[no-untyped-def]
        super().__init__(*args)
        self.ledger = Unchecked(self.budget, self.ledger._counted)


class ProtectsNothing(StreamAdmission):
    def _trim(self, room: int, restore: object | None) -> None:
        super()._trim(room, None)


class NeverDrops(StreamAdmission):
    def _protect(self, demand: Demand, room: int) -> object | None:
        return demand.restore


class TrimsBeforeItWaits(StreamAdmission):
    def _fit(self, demand):  # type: ignore[no-untyped-def]
        if self._admitted:
            self._states.trim(0, None)
        return super()._fit(demand)


class ShedsBeforeItWaits(StreamAdmission):
    def _fit(self, demand):  # type: ignore[no-untyped-def]
        if self._admitted:
            for name in self._kept:
                self._kept.shed(name, 0)
        return super()._fit(demand)


class ForgetsTheCopy(StreamAdmission):
    def _make(self, demand, growth, restore):  # type: ignore[no-untyped-def]
        super()._make(demand, growth, restore)
        self.ledger.take({DRAFTERS: sum(one.copy for one in growth.values())})


class LosesBytesOnFailure(StreamAdmission):
    def _make(self, demand, growth, restore):  # type: ignore[no-untyped-def]
        try:
            super()._make(demand, growth, restore)
        except BaseException:
            self.ledger.take({DRAFTERS: sum(one.new for one in growth.values())})
            raise


# The 8 GiB shape.


def admits_within(shape: Shape, kind: type[StreamAdmission]) -> None:
    admits = shape.admission(kind)
    assert shape.recorder.now == 4 * GIB
    assert admits.admit(shape.demand())
    assert shape.recorder.peak == 8 * GIB
    assert shape.restore in shape.states.entries
    assert shape.states.nbytes() == 1.5 * GIB
    assert shape.target.restored == [shape.restore]
    # The copy and the old drafter cache are gone: 3 + 2 beside the states.
    assert shape.recorder.now == 6.5 * GIB
    assert admits.used() == {STREAMS: 3 * GIB, DRAFTERS: 2 * GIB, KEPT: 0, STATES: 1.5 * GIB}


def test_the_peak_is_the_budget_and_the_protected_entry_stays(shape: Shape) -> None:
    admits_within(shape, StreamAdmission)


@pytest.mark.parametrize("control", [AllocatesFirst, UncheckedAllocatesFirst, ProtectsNothing, ForgetsTheCopy])
def test_control_of_the_order(shape: Shape, control: type[StreamAdmission]) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        admits_within(shape, control)


def test_allocating_first_reaches_nine_and_a_half(shape: Shape) -> None:
    assert shape.admission(UncheckedAllocatesFirst).admit(shape.demand())
    assert shape.recorder.peak == 9.5 * GIB


def test_allocating_first_is_caught_by_the_ledger_too(shape: Shape) -> None:
    with pytest.raises(LedgerError, match="does not fit"):
        shape.admission(AllocatesFirst).admit(shape.demand())


def drops_what_is_too_big(kind: type[StreamAdmission]) -> None:
    shape = make_shape(restore_bytes=2 * GIB)
    admits = shape.admission(kind)
    assert admits.admit(shape.demand())
    assert shape.restore not in shape.states.entries
    assert shape.target.restored == [None]
    assert shape.recorder.peak == 8 * GIB
    # The others stay, as far as the room goes.
    assert [entry.name for entry in shape.states.entries] == ["other 1", "other 2", "other 3"]


def test_a_restore_entry_too_big_to_stay_is_dropped() -> None:
    drops_what_is_too_big(StreamAdmission)


@pytest.mark.parametrize("control", [NeverDrops, AllocatesFirst, UncheckedAllocatesFirst])
def test_control_of_the_drop(control: type[StreamAdmission]) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        drops_what_is_too_big(control)


def gives_everything_back(shape: Shape, kind: type[StreamAdmission]) -> None:
    admits = shape.admission(kind)
    shape.drafter.fail = True
    with pytest.raises(MemoryError, match="drafter cache"):
        admits.admit(shape.demand(keep=(GIB // 4,)))
    assert shape.recorder.peak == 8 * GIB
    # The old drafter cache and the trimmed states are all there is.
    assert shape.recorder.now == 2.5 * GIB
    assert admits.used() == {STREAMS: 0, DRAFTERS: 0, KEPT: GIB, STATES: 1.5 * GIB}
    assert admits.reserved() == 0
    # And the same stream can be admitted afterwards.
    shape.drafter.fail = False
    assert admits.admit(shape.demand())
    assert shape.recorder.peak == 8 * GIB


def test_a_failed_prepare_returns_every_byte(shape: Shape) -> None:
    gives_everything_back(shape, StreamAdmission)


@pytest.mark.parametrize("control", [LosesBytesOnFailure, UncheckedAllocatesFirst])
def test_control_of_the_failure(shape: Shape, control: type[StreamAdmission]) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        gives_everything_back(shape, control)


def waits_untouched(shape: Shape, kind: type[StreamAdmission]) -> None:
    admits = admission(8 * GIB, shape.drafter, shape.states, lambda tokens: tokens * GIB, kind=kind)
    assert admits.admit(shape.target.demand(7, 4 * GIB, GIB, key="b", tokens=5))
    now, entries = shape.recorder.now, list(shape.states.entries)
    # 4 + 1 are taken; 3 + 2 more do not fit, with or without what is kept.
    assert not admits.admit(shape.demand(tokens=5))
    assert shape.recorder.now == now
    assert shape.states.entries == entries
    assert shape.drafter.sheds == 0
    assert admits.used()[STREAMS] == 4 * GIB


def test_a_peak_that_cannot_fit_waits_before_anything_is_touched(shape: Shape) -> None:
    waits_untouched(shape, StreamAdmission)


@pytest.mark.parametrize("control", [TrimsBeforeItWaits, ShedsBeforeItWaits])
def test_control_of_the_wait(shape: Shape, control: type[StreamAdmission]) -> None:
    with pytest.raises(AssertionError):
        waits_untouched(shape, control)


def test_kept_drafter_caches_are_shed_before_a_stream_waits() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder, FakeState(GIB)), FakeDrafter(recorder)
    drafter.keep(Slot("b", 2 * GIB, GIB))
    drafter.keep(Slot("c", 2 * GIB, GIB))
    target = Target(recorder, drafter)
    admits = admission(8 * GIB, drafter, states, lambda tokens: 5 * GIB)
    assert admits.admit(target.demand(1, 3 * GIB, 2 * GIB))
    # 3 + 2 leave 3: one kept cache of 2 stays, and the state of 1 beside it.
    assert [slot.key for slot in drafter.kept_slots] == ["c"]
    assert recorder.peak == 8 * GIB
    assert states.nbytes() == GIB


def test_a_shed_cache_is_asked_for_afresh() -> None:
    """The cache that the stream would take over is shed: its growth is then a fresh cache's."""
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    drafter.keep(Slot("a", 2 * GIB, GIB))
    target = Target(recorder, drafter)
    admits = admission(8 * GIB, drafter, states, lambda tokens: 8 * GIB)
    # 5 + 3 + a copy of 1 beside the old 2 would be 11.
    assert admits.admit(target.demand(1, 5 * GIB, 3 * GIB))
    assert recorder.peak == 8 * GIB
    assert admits.used() == {STREAMS: 5 * GIB, DRAFTERS: 3 * GIB, KEPT: 0, STATES: 0}


def test_a_cache_taken_over_as_it_is_costs_nothing_new() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    drafter.keep(Slot("a", 3 * GIB, GIB))
    target = Target(recorder, drafter)
    admits = admission(8 * GIB, drafter, states, lambda tokens: 7 * GIB)
    assert admits.admit(target.demand(1, 5 * GIB, 2 * GIB))
    assert recorder.peak == 8 * GIB
    assert admits.used() == {STREAMS: 5 * GIB, DRAFTERS: 3 * GIB, KEPT: 0, STATES: 0}
    target.end(1, admits)
    assert admits.used() == {STREAMS: 0, DRAFTERS: 0, KEPT: 3 * GIB, STATES: 0}


def test_two_requests_that_fit_alone_pass_in_turn() -> None:
    """100 GiB; 52 layers of 8 kv heads and a drafter of 32 layers of 4, head 128: 208 + 64 KiB a token."""
    cache_token, drafter_token = 52 * 2 * 8 * 128 * 2, 32 * 2 * 4 * 128 * 2
    assert (cache_token, drafter_token) == (208 << 10, 64 << 10)
    tokens, budget = 240_000, 100 * GIB
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(budget, drafter, states, lambda n: n * (cache_token + drafter_token))
    one, two = (
        target.demand(n, tokens * cache_token, tokens * drafter_token, key=f"prompt {n}", tokens=tokens) for n in (1, 2)
    )
    assert admits.admit(one)
    assert not admits.admit(two)
    together = 2 * tokens * (cache_token + drafter_token)
    assert round((together - budget) / GIB, 1) == 24.5
    target.end(1, admits)
    assert admits.used()[KEPT] == tokens * drafter_token
    assert admits.admit(two)
    assert admits.used()[KEPT] == tokens * drafter_token, "the second fits beside the kept drafter cache"
    assert recorder.peak <= budget


def test_a_separate_budget_for_the_drafter_would_have_let_both_in() -> None:
    """Control: without the drafter in the demand, two targets of 240,000 tokens fit 100 GiB."""
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(100 * GIB, drafter, states, lambda n: n * (208 << 10))
    for stream in (1, 2):
        assert admits.admit(target.demand(stream, 240_000 * (208 << 10), 0, key=f"prompt {stream}", tokens=240_000))


def test_what_can_never_fit_is_refused_with_the_numbers() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(10 * GIB, drafter, states, lambda tokens: tokens * (1 << 20))
    assert admits.never(target.demand(1, 0, 0, tokens=10_240)) is None
    refusal = admits.never(target.demand(1, 0, 0, tokens=10_241))
    assert refusal is not None
    assert (refusal.name, refusal.status) == ("context_length_exceeded", 400)
    assert "10241 tokens" in refusal.reason
    assert "10240 tokens" in refusal.reason
    assert "--memory-gib" in refusal.hint


def test_no_more_streams_than_parallel() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(100, drafter, states, lambda tokens: 2, parallel=2)
    assert [admits.admit(target.demand(stream, 1, 1, key=str(stream))) for stream in (1, 2, 3)] == [True, True, False]
    target.end(1, admits)
    assert admits.admit(target.demand(3, 1, 1, key="3"))


def test_a_stream_is_admitted_once_and_released_any_number_of_times() -> None:
    recorder = Recorder()
    states, drafter = FakeStates(recorder), FakeDrafter(recorder)
    target = Target(recorder, drafter)
    admits = admission(100, drafter, states)
    assert admits.admit(target.demand(1, 1, 1))
    with pytest.raises(ValueError, match="admitted already"):
        admits.admit(target.demand(1, 1, 1))
    admits.release(1)
    admits.release(1)
    admits.release(2)
    assert admits.used()[STREAMS] == 0


def test_what_copy_and_old_cache_gave_up_goes_to_the_states(shape: Shape) -> None:
    """At the peak 1.5 GiB are left for states; once copy and old cache are gone, 3."""
    admits = shape.admission()
    assert admits.admit(shape.demand(keep=(GIB // 2, GIB // 2, GIB // 2)))
    assert shape.states.nbytes() == 1.5 * GIB
    assert admits.reserved() == 1.5 * GIB

"""Prompts: which is read next, how replies keep their share, and states that are kept on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from tests.fakes.lanes import AllStates, CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import PLAN, FakeModel
from tests.fakes.reading import Sink
from tf_host.lanes import Limits
from tf_host.lanes import reading as reading_module
from tf_host.lanes import rounds as rounds_module
from tf_host.lanes.catching_up import CatchingUp
from tf_host.lanes.reading import PromptReading
from tf_host.lanes.stream import Decoding, Stream
from tf_host.requests import Reading


class LastStates(AllStates):
    """Plans one state, at the last chunk start."""

    def plan_saves(self, tokens: Sequence[int], boundaries: Sequence[int], start: int) -> Sequence[int]:
        return super().plan_saves(tokens, boundaries, start)[:1]


class Clock:
    """Time that only what is timed moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1.0
        for module in (reading_module, rounds_module):
            monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_the_prompt_with_the_fewest_tokens_left_goes_first() -> None:
    model = FakeModel()
    lanes = make_lanes(model)
    order: list[int] = []
    model.on_prefill = order.append
    sinks = decode(lanes, request([1] * 81, 2), request([2] * 41, 2), request([3] * 17, 2))
    # 16 tokens left, then 40, then 80.
    assert order == [0, 0, 16, 32, 0, 16, 32, 48, 64]
    assert [sink.tokens for sink in sinks] == [
        naive(request(prompt, 2))[0] for prompt in ([1] * 81, [2] * 41, [3] * 17)
    ]


def test_a_prompt_passed_over_8_times_goes_next() -> None:
    model = FakeModel()
    lanes = make_lanes(model, admission=CountAdmission(parallel=16))
    long = Sink()
    lanes.submit(request([1] * 161, 1), long)
    for k in range(12):
        lanes.submit(request([k] * 17, 1), Sink())
    lengths: list[int] = []
    while lanes.step():
        lengths.append(max((event.done for event in long.events if isinstance(event, Reading)), default=0))
    assert lengths.index(16) == 8


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9])
def test_replies_keep_their_share_of_the_time(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, model = Clock(monkeypatch), FakeModel()
    spent = {"reading": 0.0, "decoding": 0.0}

    def on_prefill(begin: int) -> None:
        clock.spend(0.3)
        spent["reading"] += 0.3

    def on_verify(windows: object) -> None:
        clock.spend(0.08)
        spent["decoding"] += 0.08

    lanes = make_lanes(model, limits=Limits(decode_share=share))
    lanes.submit(request([1], 190), Sink())
    for _ in range(20):  # long before the prompt: rounds that were not shared earn it nothing
        lanes.step()
    model.on_prefill, model.on_verify = on_prefill, on_verify
    lanes.submit(request([2] * 161, 1), Sink())
    while len(model.chunks) < 5:
        if len(model.chunks) == 4:  # four whole turns of chunk and repayment, once the fifth begins
            whole = dict(spent)
        lanes.step()
    kept = whole["decoding"] / (whole["decoding"] + whole["reading"])
    at_least_a_round_each_turn = 0.08 / 0.38
    assert abs(kept - max(share, at_least_a_round_each_turn)) < 0.02


def test_long_rounds_beside_short_chunks_save_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, model = Clock(monkeypatch), FakeModel()
    reading = PromptReading(model, None, CatchingUp([], None, None, 16), 0.5)  # type: ignore[arg-type]
    for _ in range(10):
        reading.repay(5.0)
    assert reading.due(decoding=True)
    stream = Stream(1, request([1] * 64), Sink(), 0.0)
    stream.live = Decoding(model.make_cache(80), None, None, None, deque(PLAN.chunks([1] * 64)), deque())  # type: ignore[arg-type]
    model.on_prefill = lambda begin: clock.spend(6.0)
    reading.read(stream)
    # One round ahead at most: 6 owed, 5 paid.
    assert not reading.due(decoding=True)
    assert reading.due(decoding=False)


def test_a_share_out_of_range_is_an_error() -> None:
    with pytest.raises(ValueError, match="decode share"):
        make_lanes(limits=Limits(decode_share=1.0))


def test_reading_is_told_at_the_first_chunk_and_then_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, model = Clock(monkeypatch), FakeModel()
    model.on_prefill = lambda begin: clock.spend(0.4)
    [sink] = decode(make_lanes(model), request([1] * 161, 1))
    told = [event for event in sink.events if isinstance(event, Reading)]
    assert [event.done for event in told] == [16, 64, 112, 160]
    assert {event.total for event in told} == {161}


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 31, 32, 33, 48, 49])
def test_a_resumed_prompt_is_the_cold_one(length: int) -> None:
    prompt = [k % 5 for k in range(length)]
    wanted = request(prompt, 30)
    states = AllStates(PLAN)
    lanes = make_lanes(states=states)
    cold, warm = decode(lanes, wanted)[0], decode(lanes, wanted)[0]
    assert cold.tokens == warm.tokens == naive(wanted)[0]
    assert cold.done.cached_tokens == 0
    # The longest chunk start that leaves the last prompt token to be decoded.
    assert warm.done.cached_tokens == (length - 1) // 16 * 16


def test_turns_resume_and_an_edited_turn_resumes_before_the_edit() -> None:
    states = AllStates(PLAN)
    lanes = make_lanes(states=states)
    prompt = [k % 7 for k in range(40)]
    [first] = decode(lanes, request(prompt, 30, stop=("ab",)))
    following = [*prompt, *first.tokens, *[6, 5, 4, 3]]
    edited = [*following[:-3], 1, 1, 2]
    for turn in (following, edited):
        [sink] = decode(lanes, request(turn, 20))
        assert sink.tokens == naive(request(turn, 20))[0]
        assert sink.done.cached_tokens >= 32
    # Kept states hold prompt rows alone, as many as they say.
    for tokens, entry in states.entries.items():
        assert len(tokens) == entry.length == entry.state.length


@pytest.mark.parametrize("shared", range(12, 36))
def test_a_prompt_that_leaves_a_kept_one_anywhere_is_the_cold_one(shared: int) -> None:
    lanes = make_lanes(states=AllStates(PLAN))
    base = [k % 5 for k in range(50)]
    decode(lanes, request(base, 5))
    other = request([*base[:shared], *[9] * 10], 20)
    [sink] = decode(lanes, other)
    assert sink.tokens == naive(other)[0]
    assert sink.done.cached_tokens <= shared


def test_a_state_with_decode_rows_would_be_seen() -> None:
    # The control of the tests above: what they compare depends on how each row was written.
    model = FakeModel()
    prompt = [k % 5 for k in range(40)]
    states = AllStates(PLAN)
    lanes = make_lanes(model, states=states)
    [first] = decode(lanes, request(prompt, 30))
    entry = states.entries[tuple(prompt[:32])]
    entry.state.entries[20] -= 1  # the same token, as if another chunk had written it
    [second] = decode(lanes, request(prompt, 30))
    assert second.done.cached_tokens == 32
    assert second.tokens != first.tokens


@pytest.mark.parametrize("chunks", range(4))
def test_a_prompt_that_was_cut_off_goes_on_where_it_was(chunks: int) -> None:
    """Its client may have a time limit, and would never get there if each try began at 0."""
    admission, states, model = CountAdmission(), LastStates(PLAN), FakeModel()
    wanted, sink = request([k % 5 for k in range(60)], 9), Sink()
    lanes = make_lanes(model, admission=admission, states=states)
    lanes.submit(wanted, sink)
    for _ in range(chunks):
        lanes.step()
    assert len(model.chunks) == chunks
    sink.cancelled = True
    lanes.step()
    assert sink.failed.code == "cancelled"
    assert (admission.held, len(model.caches)) == ({}, 0)
    [again] = decode(lanes, wanted)
    assert again.done.cached_tokens == 16 * chunks
    assert again.tokens == naive(wanted)[0]


def test_a_prompt_that_was_cut_off_is_kept_only_where_room_was_promised() -> None:
    admission, states = CountAdmission(), LastStates(PLAN)
    admission.keep = lambda stream, nbytes: False  # type: ignore[method-assign]
    lanes, sink = make_lanes(admission=admission, states=states), Sink()
    lanes.submit(request([1] * 60, 5), sink)
    lanes.step()
    sink.cancelled = True
    lanes.step()
    assert states.entries == {}


def test_a_prompt_that_was_cut_off_takes_any_room_that_was_promised_for_a_longer_state() -> None:
    admission, states = CountAdmission(), AllStates(PLAN)
    admission.keep = lambda stream, nbytes: nbytes == 8 * 32  # type: ignore[method-assign]
    lanes, sink = make_lanes(admission=admission, states=states), Sink()
    lanes.submit(request([1] * 60, 5), sink)
    lanes.step()
    sink.cancelled = True
    lanes.step()
    assert [len(tokens) for tokens in states.entries] == [16]


def test_states_are_kept_only_where_admission_reserved_them() -> None:
    admission, states = CountAdmission(), AllStates(PLAN)
    admission.keep = lambda stream, nbytes: nbytes == 8 * 32  # type: ignore[method-assign]
    decode(make_lanes(admission=admission, states=states), request([1] * 60, 5))
    assert [len(tokens) for tokens in states.entries] == [32]


def test_a_state_that_cannot_be_saved_costs_the_stream_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model, states = FakeModel(), AllStates(PLAN)

    def save(cache: object, tokens: int) -> None:
        raise MemoryError("planted")

    model.save = save  # type: ignore[method-assign,assignment]
    wanted = request([1] * 40, 9)
    [sink] = decode(make_lanes(model, states=states), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert states.entries == {}
    assert "was not kept" in caplog.text


def test_unique_secrets_never_leak_between_prompts() -> None:
    lanes = make_lanes(states=AllStates(PLAN))
    shared = [k % 5 for k in range(32)]
    for secret in range(40):
        wanted = request([*shared, secret, *shared[:20]], 6)
        [sink] = decode(lanes, wanted)
        assert sink.tokens == naive(wanted)[0]


def test_a_prompt_is_still_read_when_the_last_reply_ends() -> None:
    lanes = make_lanes(limits=Limits(decode_share=0.9))
    short, long = Sink(), Sink()
    lanes.submit(request([1], 3), short)
    lanes.submit(request([2] * 100, 3), long)
    run(lanes)
    assert short.done.reason == long.done.reason == "length"

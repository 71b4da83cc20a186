"""Plain rounds that are sent before the last one is read: when they are, and what becomes of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from tests.fakes.lanes import GREEDY, CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import FakeModel
from tests.fakes.proposers import Answer, FakeProposer, always
from tests.fakes.reading import Sink
from tf_host.lanes import rounds
from tf_host.lanes.depths import RoundSample
from tf_host.lanes.fixed_depths import FixedDepths
from tf_host.requests import Delta, GenerateRequest, Sampling
from tf_plugins.types import DraftRequest, Window


def watched(fails_at: int | None = None) -> tuple[FakeModel, list[bool]]:
    """A model that chains, and for each forward whether its tokens were lazy."""
    model, lazy = FakeModel(chains=True), []

    def on_verify(windows: Sequence[Window]) -> None:
        lazy.append(any(isinstance(window.tokens, mx.array) for window in windows))
        if len(lazy) == fails_at:
            raise RuntimeError("no kernel")

    model.on_verify = on_verify
    return model, lazy


def test_plain_rounds_are_queued_one_behind_another() -> None:
    model, lazy = watched()
    wanted = request([1, 2, 3], 30)
    [sink] = decode(make_lanes(model), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert lazy == [False] + [True] * 29
    assert sink.done.rounds == 30


def test_a_round_is_sent_before_the_one_that_is_queued_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that MLX sends together are ready together: the first token would come a round late."""
    model, order = FakeModel(chains=True), list[str]()
    model.on_verify = lambda windows: order.append("forward")
    send = mx.async_eval

    def sent(*arrays: Any) -> None:
        order.append("sent")
        send(*arrays)

    monkeypatch.setattr(mx, "async_eval", sent)
    decode(make_lanes(model), request([1, 2, 3], 5))
    assert order == ["forward", "sent"] * 5


@pytest.mark.parametrize("seed", range(4))
def test_a_queued_draw_is_keyed_by_its_own_position(seed: int) -> None:
    model, lazy = watched()
    wanted = request([1, 2, 3], 30, Sampling(seed=seed, temperature=1.0))
    [sink] = decode(make_lanes(model), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert any(lazy)


def test_a_model_that_does_not_chain_is_never_asked_to() -> None:
    model, lazy = watched()
    model.chains = False
    decode(make_lanes(model), request([1, 2, 3], 30))
    assert not any(lazy)


@pytest.mark.parametrize(
    "wanted",
    [
        request([1, 2], 12, Sampling(seed=1, repetition=1.3)),
        request([1, 2], 12, Sampling(seed=1, temperature=1.0, top_p=0.5)),
    ],
    ids=["penalty", "top-p that may have to draw again"],
)
def test_a_draw_that_needs_its_tokens_is_read_first(wanted: GenerateRequest) -> None:
    model, lazy = watched()
    [sink] = decode(make_lanes(model), wanted)
    assert sink.tokens == naive(wanted)[0]
    if wanted.sampling.repetition != 1.0:
        assert not any(lazy)


def test_streams_that_may_have_drafts_are_read_first() -> None:
    model, lazy = watched()
    decode(make_lanes(model, proposers=[FakeProposer(always(4))]), request([1, 2, 3], 20))
    assert not any(lazy)
    decode(make_lanes(model, proposers=[FakeProposer(always(4))]), request([1, 2, 3], 20, draft=False))
    assert any(lazy)


class Told(FixedDepths):
    """A depth rule to which asking costs nothing, and that notes what rounds took."""

    def __init__(self, depth: int, *, free: bool = True) -> None:
        super().__init__(depth)
        self.asking_is_free = free
        self.rounds: list[RoundSample] = []

    def free(self, proposer: int) -> bool:
        return self.asking_is_free

    def record_round(self, sample: RoundSample) -> None:
        self.rounds.append(sample)


def answering(reply: Sequence[int], start: int, stop: int) -> Answer:
    """The right drafts after ``start`` reply tokens and before ``stop``, after a prompt of three; else none."""

    def answer(request: DraftRequest) -> Sequence[int] | None:
        at = request.position - 3
        return reply[at : at + request.most] if start <= at < stop else None

    return answer


def test_rounds_are_queued_while_whoever_may_be_asked_is_silent() -> None:
    model, lazy = watched()
    wanted = request([1, 2, 3], 60)
    reply = naive(wanted)[0]
    proposer = FakeProposer(answering(reply, 20, 30))
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=Told(4)), wanted)
    assert sink.tokens == reply
    kept = sink.done.kept["fake"]
    assert kept > 4  # more than one window's
    assert lazy[:21] == [False] + [True] * 20  # found while the twenty-first was under way
    assert lazy[21:23] == [False, False]
    assert sum(not each for each in lazy) <= 5
    assert all(lazy[-20:])
    assert sink.done.rounds == len(lazy) == 60 - kept


@pytest.mark.parametrize("depth", [0, 4])
def test_a_proposer_that_is_dear_to_ask_is_not_asked_in_vain(depth: int) -> None:
    """Where it would be asked, nothing is queued; where it stands aside, rounds are, and it is left alone."""
    model, lazy = watched()
    wanted = request([1, 2, 3], 20)
    proposer = FakeProposer(lambda asked: None)
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=Told(depth, free=False)), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert any(lazy) == (not depth)
    assert len(proposer.calls) == (19 if depth else 0)


def test_a_queued_round_is_timed_from_the_end_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = watched()
    depths = Told(0)
    lanes = make_lanes(model, proposers=[FakeProposer(always(4))], depths=depths)
    lanes.submit(request([1, 2, 3], 6), Sink())
    clock = itertools.count(100)
    monkeypatch.setattr(rounds, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    run(lanes)
    timed = [sample.seconds for sample in depths.rounds]
    assert timed[0] is None  # the second was queued behind it
    assert all(seconds == 2.0 for seconds in timed[1:])  # planned and read: two looks at the clock each
    assert len(timed) == 6


def test_a_round_is_not_timed_by_the_streams_that_are_left_of_it() -> None:
    """It was sent for one that ended meanwhile."""
    model, _ = watched()
    depths = Told(0)
    lanes = make_lanes(model, proposers=[FakeProposer(always(4))], depths=depths)
    plain = naive(request([1, 2, 3], 30))[0]
    decode(lanes, request([1, 2, 3], 30, end_ids=[plain[11]]), request([7, 8], 40))
    streams = [len(sample.outcomes) for sample in depths.rounds]
    together = streams.index(2)
    alone = streams.index(1, together)
    timed = [sample.seconds is not None for sample in depths.rounds]
    assert alone - together > 5
    assert all(timed[together + 1 : alone])
    assert timed[alone : alone + 3] == [False, True, True]


def test_a_round_beside_a_prompt_is_not_timed() -> None:
    """What a prompt's chunk took is not the round's."""
    model, _ = watched()
    depths = Told(0)
    lanes = make_lanes(model, proposers=[FakeProposer(always(4))], depths=depths)
    lanes.submit(request([1, 2, 3], 60), Sink())
    for _ in range(6):
        lanes.step()
    assert depths.rounds[-1].seconds is not None
    lanes.submit(request(range(1, 90), 2), Sink())
    beside = 0
    for _ in range(50):
        lanes.step()
        if lanes._reading:
            beside += 1
            assert depths.rounds[-1].seconds is None
    assert beside > 1


def test_the_round_behind_an_end_token_is_left() -> None:
    model, lazy = watched()
    plain = naive(request([1, 2, 3], 30))[0]
    wanted = request([1, 2, 3], 30, end_ids=[plain[9]])
    admission = CountAdmission()
    lanes = make_lanes(model, admission=admission)
    [sink] = decode(lanes, wanted)
    assert sink.tokens == plain[: plain.index(plain[9]) + 1]
    assert admission.held == {}
    assert len(lazy) == len(sink.tokens) + 1  # one round for nothing
    again = request([4, 5], 10)
    [sink] = decode(lanes, again)
    assert sink.tokens == naive(again)[0]


def test_a_cache_is_freed_only_once_the_queued_round_has_written_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One evaluation more before the bytes go back than where nothing is queued."""
    plain = naive(request([1, 2, 3], 30))[0]
    evaluate, counted = mx.eval, []
    for chains in (False, True):
        admission, happened = CountAdmission(), []
        release = admission.release
        with monkeypatch.context() as patched:
            patched.setattr(mx, "eval", lambda *arrays, _seen=happened: (_seen.append("eval"), evaluate(*arrays)))
            patched.setattr(admission, "release", lambda at, _seen=happened, _r=release: (_seen.append("gone"), _r(at)))
            decode(
                make_lanes(FakeModel(chains=chains), admission=admission), request([1, 2, 3], 30, end_ids=[plain[9]])
            )
        counted.append(happened.index("gone"))
    assert counted[1] == counted[0] + 1


def test_a_stream_that_joins_has_its_round_after_the_queued_one() -> None:
    model, _ = watched()
    lanes = make_lanes(model)
    first, second = request([1, 2, 3], 24), request([7, 8], 12)
    sinks = [Sink(), Sink()]
    lanes.submit(first, sinks[0])
    for _ in range(6):
        lanes.step()
    lanes.submit(second, sinks[1])
    together = []
    model.on_verify = lambda windows: together.append(len(windows))
    run(lanes)
    assert [sink.tokens for sink in sinks] == [naive(first)[0], naive(second)[0]]
    assert together.count(2) >= 10


def test_a_client_that_leaves_takes_its_queued_round_along() -> None:
    model, _ = watched()
    admission = CountAdmission()
    lanes = make_lanes(model, admission=admission)

    def leaves(sink: Sink, event: Any) -> None:
        sink.cancelled = isinstance(event, Delta) and len(sink.tokens) >= 5

    gone, stays = Sink(leaves), Sink()
    others = request([7, 8], 20)
    lanes.submit(request([1, 2, 3], 40), gone)
    lanes.submit(others, stays)
    run(lanes)
    assert gone.failed.code == "cancelled"
    assert stays.tokens == naive(others)[0]
    assert admission.held == {}
    assert len(model.caches) == 0


def test_a_queued_round_that_fails_ends_its_streams_and_no_other() -> None:
    model, _ = watched(fails_at=6)
    lanes = make_lanes(model)
    [sink] = decode(lanes, request([1, 2, 3], 20))
    assert sink.failed.message == "the server failed while making this reply (a round)"
    wanted = request([1, 2, 3], 20, GREEDY)
    [sink] = decode(lanes, wanted)
    assert sink.tokens == naive(wanted)[0]

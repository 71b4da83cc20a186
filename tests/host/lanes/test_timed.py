"""What a round is said to have taken: the forward and the host's own work, and never a proposer's call or a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from tests.fakes.lanes import decode, make_lanes, request, run
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer
from tests.fakes.reading import Sink
from tf_host.lanes import drafting, fence, rounds
from tf_host.lanes.depths import RoundSample
from tf_host.lanes.fixed_depths import FixedDepths
from tf_plugins.types import DraftRequest, Outcome, RoundDone, StreamDone, Window

FORWARD, CALL, OBSERVED = 10.0, 50.0, 3.0


class Told(FixedDepths):
    """Depths that keep what they are told."""

    def __init__(self) -> None:
        super().__init__(2)  # two windows fit one forward
        self.rounds: list[RoundSample] = []

    def record_round(self, sample: RoundSample) -> None:
        self.rounds.append(sample)


class Clock:
    """A clock that only a model, a proposer and an observer move, each by its own time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (rounds, drafting, fence):
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))
        self.model = FakeModel()
        self.model.on_verify = self.verify

    def verify(self, windows: Sequence[Window]) -> None:
        self.now += FORWARD

    def propose(self, request: DraftRequest) -> list[int]:
        self.now += CALL
        return [1] * request.most

    def round_done(self, done: RoundDone) -> None:
        self.now += OBSERVED

    def stream_done(self, done: StreamDone) -> None:
        pass


def test_a_drafted_round_takes_what_the_host_does_beside_the_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that is queued hides that, so one that is not would seem too cheap without it."""
    clock, depths = Clock(monkeypatch), Told()
    lanes = make_lanes(clock.model, proposers=[FakeProposer(clock.propose)], depths=depths, observers=[clock])
    decode(lanes, request([1, 2, 3], 24))
    assert sum(outcome.drafted > 0 for sample in depths.rounds for outcome in sample.outcomes) > 5
    assert [sample.seconds for sample in depths.rounds] == [FORWARD, *[FORWARD + OBSERVED] * (len(depths.rounds) - 1)]


def test_a_round_that_a_stream_joins_is_counted_from_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompt was read since the round before, and that is not the round's."""
    clock, depths = Clock(monkeypatch), Told()
    lanes = make_lanes(clock.model, proposers=[FakeProposer(clock.propose)], depths=depths, observers=[clock])
    lanes.submit(request([1, 2, 3], 40), Sink())
    for _ in range(5):
        lanes.step()
    lanes.submit(request([7, 8], 40), Sink())
    run(lanes)
    streams = [len(sample.outcomes) for sample in depths.rounds]
    joined = streams.index(2)
    assert joined > 3
    assert [sample.seconds for sample in depths.rounds[joined - 1 : joined + 2]] == [
        FORWARD + OBSERVED,
        FORWARD,
        FORWARD + OBSERVED,
    ]


def test_no_call_of_a_proposer_is_a_round_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slow to hear what became of its drafts, or that a stream ended, makes nobody else's rounds dearer."""
    clock, depths = Clock(monkeypatch), Told()

    class Slow(FakeProposer):
        def observe(self, outcomes: Sequence[Outcome]) -> None:
            super().observe(outcomes)
            clock.now += CALL

        def close(self, stream: int) -> None:
            super().close(stream)
            clock.now += CALL

    lanes = make_lanes(clock.model, proposers=[Slow(clock.propose)], depths=depths, observers=[clock])
    decode(lanes, request([1, 2, 3], 12), request([7, 8], 40))
    streams = [len(sample.outcomes) for sample in depths.rounds]
    alone = streams.index(1, streams.index(2))
    assert len(streams) - alone > 3
    assert depths.rounds[alone].seconds == FORWARD
    assert {sample.seconds for sample in depths.rounds[alone + 1 :]} == {FORWARD + OBSERVED}

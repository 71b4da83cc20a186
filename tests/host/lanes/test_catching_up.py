"""Proposers read a prompt before its stream joins the rounds, and nobody waits for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.fakes.lanes import AllStates, CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import PLAN, FakeModel
from tests.fakes.proposers import FakeProposer, ReadingProposer, always, oracle
from tests.fakes.reading import Sink
from tf_host.lanes import FixedDepths, NoDrafts
from tf_host.lanes.depths import READING, StreamView

LONG = request([k % 5 for k in range(100)], 20)
REPLY = naive(LONG)[0]
RIGHT = oracle({LONG.prompt: REPLY})
GRID = PLAN.grid


class Told(FixedDepths):
    """Keeps what it was asked and told of reading."""

    def __init__(self) -> None:
        super().__init__(4)
        self.asked: list[tuple[list[int], int]] = []
        self.read: list[tuple[int, int, bool]] = []

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        self.asked.append(([view.id for view in streams], proposer))
        return super().asks(streams, proposer)

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        self.read.append((proposer, tokens, seconds > 0))


def test_a_prompt_is_read_a_piece_at_a_time_beside_the_target_and_before_the_first_draft() -> None:
    model, proposer, depths = FakeModel(), ReadingProposer(RIGHT), Told()
    model.on_prefill = lambda begin: proposer.order.append(f"target {begin}")
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=depths), LONG)
    assert sink.tokens == REPLY
    assert GRID == READING == 16
    beside = [line for begin in range(0, 96, GRID) for line in (f"target {begin}", "read 16")]
    assert proposer.order[:14] == [*beside, "target 96", "propose"]
    assert depths.read == [(0, GRID, True)] * 6
    assert sink.done.kept["fake"] > 10


def test_what_is_cached_of_the_target_is_read_by_a_proposer_all_the_same() -> None:
    proposer, states = ReadingProposer(RIGHT), AllStates(PLAN)
    lanes = make_lanes(proposers=[proposer], depth=4, states=states)
    for _ in range(2):
        proposer.order.clear()
        [sink] = decode(lanes, LONG)
        assert sink.tokens == REPLY
        assert sum(line.startswith("read") for line in proposer.order) == -(-(99 - READING) // GRID)
    assert sink.done.cached_tokens > 80


@pytest.mark.parametrize("why", ["plain", "depth", "short", "kept", "lazy"])
def test_nothing_is_read_where_no_draft_is_expected_or_nothing_is_unread(why: str) -> None:
    proposer: FakeProposer = ReadingProposer(RIGHT, starts_at=100 - READING if why == "kept" else 0)
    if why == "lazy":
        proposer = FakeProposer(RIGHT)  # one without ``read``
        proposer.unread = lambda stream, length: length  # type: ignore[method-assign]
    prompt = LONG.prompt[:READING] if why == "short" else LONG.prompt
    told = Told()
    lanes = make_lanes(proposers=[proposer], depths=NoDrafts() if why == "depth" else told)
    wanted = request(prompt, 9, draft=why != "plain")
    [sink] = decode(lanes, wanted)
    assert sink.tokens == naive(wanted)[0]
    assert not [line for line in getattr(proposer, "order", ()) if line.startswith("read")]
    assert told.asked == []


def test_replies_go_on_while_a_proposer_reads() -> None:
    model, proposer = FakeModel(), ReadingProposer(RIGHT)
    lanes = make_lanes(model, proposers=[proposer], depth=4)
    other, reader = Sink(), Sink()
    lanes.submit(request([1], 150), other)
    lanes.step()
    lanes.submit(LONG, reader)
    model.on_verify = lambda windows: proposer.order.append("round")
    run(lanes)
    assert reader.tokens == REPLY
    assert other.tokens == naive(request([1], 150))[0]
    pieces = [at for at, line in enumerate(proposer.order) if line.startswith("read")]
    assert len(pieces) > 3
    for piece, following in pairwise(pieces):
        assert "round" in proposer.order[piece:following]


def test_depths_are_asked_about_the_stream_among_those_that_decode() -> None:
    depths = Told()
    lanes = make_lanes(proposers=[FakeProposer(always(1)), ReadingProposer(RIGHT, "other")], depths=depths)
    lanes.submit(request([1], 60), Sink())
    lanes.step()
    lanes.submit(LONG, Sink())
    run(lanes)
    assert depths.asked == [([1, 2], 1)]


@pytest.mark.parametrize("method", ["read", "unread"])
def test_a_proposer_that_fails_to_read_costs_its_stream_its_drafts_alone(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = ReadingProposer(RIGHT, "broken", raises=method), FakeProposer(RIGHT, "other")
    lanes = make_lanes(proposers=[broken, other], depth=4)
    [sink] = decode(lanes, LONG)
    assert sink.tokens == REPLY
    assert f"'broken' failed in {method}" in caplog.text
    assert sink.done.kept.keys() == {"other"}
    assert lanes.snapshot().failures["broken"].count == 1


def test_one_that_does_not_get_on_is_asked_once() -> None:
    proposer = ReadingProposer(RIGHT)
    proposer.piece = 0
    [sink] = decode(make_lanes(proposers=[proposer], depth=4), LONG)
    assert sink.tokens == REPLY
    assert proposer.order[0] == "read 0"
    assert proposer.order.count("read 0") == 1
    assert sink.done.kept["fake"] > 10


def test_a_client_that_leaves_while_a_proposer_reads_leaves_nothing_behind() -> None:
    model, admission, proposer = FakeModel(), CountAdmission(), ReadingProposer(RIGHT)
    lanes, sink = make_lanes(model, admission=admission, proposers=[proposer], depth=4), Sink()
    lanes.submit(LONG, sink)
    while not any(line.startswith("read") for line in proposer.order):
        lanes.step()
    sink.cancelled = True
    read = len(proposer.order)
    lanes.step()
    assert sink.failed.code == "cancelled"
    assert (admission.held, len(model.caches), proposer.streams, len(proposer.order)) == ({}, 0, set(), read)
    assert decode(lanes, LONG)[0].tokens == REPLY

"""Drafts: who is asked, for how many, and that a broken proposer costs drafts alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fakes.lanes import CountAdmission, decode, make_lanes, naive, request
from tests.fakes.model import VOCAB, FakeModel
from tests.fakes.proposers import FakeProposer, always, oracle
from tf_host.lanes import FixedDepths
from tf_host.lanes.depths import Cut, DraftSample, Offer, RoundSample, StreamView
from tf_plugins.types import DraftRequest

WANTED = request([3, 1, 2], 40)
REPLY = naive(WANTED)[0]
RIGHT = oracle({WANTED.prompt: REPLY})


@pytest.mark.parametrize("method", ["growth", "open", "unread", "propose", "observe", "close"])
def test_a_proposer_that_raises_costs_its_stream_its_drafts_alone(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = FakeProposer(RIGHT, "broken", raises=method), FakeProposer(RIGHT, "other")
    model, admission = FakeModel(), CountAdmission()
    lanes = make_lanes(model, admission=admission, proposers=[broken, other], depth=5)
    [sink] = decode(lanes, WANTED)
    assert sink.tokens == REPLY
    assert f"'broken' failed in {method}" in caplog.text
    if method != "close":
        assert sink.done.kept["other"] > 20  # the next proposer takes over
        assert sink.done.rounds < 12
    assert broken.streams == set()
    assert (admission.held, len(model.caches)) == ({}, 0)
    assert decode(lanes, WANTED)[0].tokens == REPLY


def test_after_it_raised_a_proposer_is_not_asked_for_that_stream_again() -> None:
    broken = FakeProposer(RIGHT, raises="propose")
    lanes = make_lanes(proposers=[broken], depth=5)
    decode(lanes, WANTED)
    assert len(broken.calls) == 1
    decode(lanes, WANTED)
    assert len(broken.calls) == 2
    assert broken.opened == broken.closed


def too_many(asked: DraftRequest) -> Sequence[int]:
    return [*RIGHT(asked)[:1], *[1] * asked.most]  # type: ignore[index]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (too_many, "tokens of at most"),
        (always(VOCAB), f"id {VOCAB} of {VOCAB}"),
        (always(-1), "id -1"),
        (always(2**40), f"id {2**40}"),
    ],
)
def test_a_draft_that_breaks_the_rules_is_dropped(answer: object, said: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = FakeProposer(answer, "bad"), FakeProposer(RIGHT, "good")  # type: ignore[arg-type]
    [sink] = decode(make_lanes(proposers=[bad, good], depth=4), WANTED)
    assert sink.tokens == REPLY
    assert sink.done.drafted.keys() == {"good"}
    assert said in caplog.text
    assert "'bad'" in caplog.text


@pytest.mark.parametrize("answer", [lambda asked: ["x"], lambda asked: [1.5], lambda asked: [None]])
def test_a_draft_of_something_else_is_a_failure(answer: object) -> None:
    [sink] = decode(make_lanes(proposers=[FakeProposer(answer)], depth=4), WANTED)  # type: ignore[arg-type]
    assert sink.tokens == REPLY
    assert sink.done.drafted == {}


def test_numpy_ids_are_ids() -> None:
    proposer = FakeProposer(lambda asked: np.array(RIGHT(asked)))
    proposer.propose = lambda requests: [  # type: ignore[method-assign]
        type("D", (), {"tokens": np.array(RIGHT(asked), dtype=np.int32)})() for asked in requests
    ]
    [sink] = decode(make_lanes(proposers=[proposer], depth=4), WANTED)
    assert sink.tokens == REPLY
    assert sink.done.kept["fake"] > 20


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (lambda requests: None, "its NoneType is no sequence of Draft or None"),
        (lambda requests: (None for _ in requests), "its generator is no sequence of Draft or None"),
        (lambda requests: [(1, 2) for _ in requests], "its tuple is no Draft"),
    ],
)
def test_answers_of_another_kind_are_named(answers: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    proposer = FakeProposer(RIGHT)
    proposer.propose = answers  # type: ignore[method-assign]
    [sink] = decode(make_lanes(proposers=[proposer], depth=4), WANTED)
    assert sink.tokens == REPLY
    assert said in caplog.text


def test_a_wrong_number_of_answers_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    proposer = FakeProposer(RIGHT)
    proposer.propose = lambda requests: []  # type: ignore[method-assign]
    [sink] = decode(make_lanes(proposers=[proposer], depth=4), WANTED)
    assert sink.tokens == REPLY
    assert "0 answers to 1 requests" in caplog.text


def test_a_proposer_that_sleeps_changes_no_reply() -> None:
    started = time.perf_counter()
    wanted = request(WANTED.prompt, 8)
    [sink] = decode(make_lanes(proposers=[FakeProposer(RIGHT, seconds=0.2)], depth=3), wanted)
    assert sink.tokens == REPLY[:8]
    assert time.perf_counter() - started > 0.4


def test_the_first_proposer_that_gives_a_draft_is_taken() -> None:
    def sometimes(asked: DraftRequest) -> Sequence[int] | None:
        return RIGHT(asked) if asked.position % 2 else None

    first, second = FakeProposer(sometimes, "first"), FakeProposer(RIGHT, "second")
    [sink] = decode(make_lanes(proposers=[first, second], depth=2), WANTED)
    assert sink.tokens == REPLY
    answered = [call[0].position for call in first.calls if call[0].position % 2]
    asked_second = [call[0].position for call in second.calls]
    assert answered
    assert not set(answered) & set(asked_second)
    assert sink.done.kept.keys() == {"first", "second"}


def test_all_streams_of_a_round_are_asked_in_one_call() -> None:
    requests = [request([k], 30) for k in range(3)]
    first = FakeProposer(lambda asked: [1] if asked.stream == 2 else None, "first")
    second = FakeProposer(always(3), "second")
    decode(make_lanes(proposers=[first, second], depth=2), *requests)
    assert {len(call) for call in first.calls[:10]} == {3}
    assert [r.stream for r in second.calls[0]] == [1, 3]


def test_a_request_without_drafts_opens_no_proposer() -> None:
    proposer = FakeProposer(RIGHT)
    lanes = make_lanes(proposers=[proposer])
    plain, drafted = decode(lanes, request(WANTED.prompt, 40, draft=False), WANTED)
    assert plain.tokens == drafted.tokens == REPLY
    assert (plain.done.drafted, proposer.opened) == ({}, [2])
    assert plain.done.rounds == 40


def test_a_request_says_where_it_stands() -> None:
    seen: list[tuple[int, list[int], float, int, frozenset[int]]] = []

    def answer(asked: DraftRequest) -> None:
        seen.append((asked.position, list(asked.context), asked.temperature, asked.seed, asked.end_ids))

    wanted = request([4, 2], 6, end_ids=[49])
    [sink] = decode(make_lanes(proposers=[FakeProposer(answer)]), wanted)
    # The reply's last token needs no draft.
    assert [position for position, *_ in seen] == [2, 3, 4, 5, 6]
    for position, context, temperature, seed, end_ids in seen:
        assert context == [4, 2, *sink.tokens][:position]
        assert (temperature, seed, end_ids) == (0.0, 1, frozenset({49}))


def test_more_rows_than_the_band_are_split_into_forwards() -> None:
    requests = [request([k, 2, k], 40) for k in range(5)]
    replies = {each.prompt: naive(each)[0] for each in requests}
    model = FakeModel()
    lanes = make_lanes(model, admission=CountAdmission(5), proposers=[FakeProposer(oracle(replies))], depth=4)
    sinks = decode(lanes, *requests)
    assert [sink.tokens for sink in sinks] == list(replies.values())
    assert max(model.forwards) == 5  # two windows of five would pass the band's top of 8
    assert lanes.snapshot().rounds < len(model.forwards)


class Recording(FixedDepths):
    """A depth rule that trims every offer and keeps what it is told."""

    def __init__(self, depth: int, most_sent: int) -> None:
        super().__init__(depth)
        self.most_sent = most_sent
        self.views: list[StreamView] = []
        self.drafts: list[DraftSample] = []
        self.rounds: list[RoundSample] = []
        self.forgotten: list[int] = []

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        self.views.extend(streams)
        return super().plan(streams)

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        return {offer.stream: Cut(self.most_sent) for offer in offers}

    def record_draft(self, sample: DraftSample) -> None:
        self.drafts.append(sample)

    def record_round(self, sample: RoundSample) -> None:
        self.rounds.append(sample)

    def forget(self, stream: int) -> None:
        self.forgotten.append(stream)


@pytest.mark.parametrize("most_sent", [-1, 0, 2, 5, 99])
def test_depths_are_told_what_was_measured_and_may_trim(most_sent: int) -> None:
    depths = Recording(5, most_sent)
    lanes = make_lanes(proposers=[FakeProposer(RIGHT)], depths=depths)
    [sink] = decode(lanes, WANTED)
    assert sink.tokens == REPLY
    sent = min(5, max(0, most_sent))
    assert {outcome.drafted for sample in depths.rounds for outcome in sample.outcomes} >= {sent}
    assert all(o.drafted <= sent and o.kept == o.drafted for s in depths.rounds for o in s.outcomes)
    assert all(sample.padded == (lanes._plan.padded(sample.rows),) for sample in depths.rounds)
    assert all(sample.seconds and sample.seconds > 0 for sample in depths.rounds)
    assert [offer.tokens for offer in depths.drafts[0].offers] == [5]
    assert depths.forgotten == [1]
    first = depths.views[0]
    assert (first.context, first.prompt, first.left, first.most, first.unread) == (3, 3, 40, 7, (0,))


class Greedy(Recording):
    """Asks for more than a window holds."""

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        super().plan(streams)
        return {stream.id: 99 for stream in streams}


@pytest.mark.parametrize("rule", [Recording, Greedy])
def test_a_window_never_passes_what_the_view_said(rule: type[Recording]) -> None:
    depths = rule(15, 15)
    model = FakeModel()
    [sink] = decode(make_lanes(model, proposers=[FakeProposer(RIGHT)], depths=depths), WANTED)
    assert sink.tokens == REPLY
    for view, rows in zip(depths.views, model.forwards, strict=True):
        assert rows <= 1 + view.most
        assert view.most < model.plan.room(view.context - 1)
        assert view.most < view.left

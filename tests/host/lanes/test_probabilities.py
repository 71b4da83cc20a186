"""What a proposer says of the chances of its drafts: checked, cut with them, shown to depths; and where they end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.grammar import PairGrammar
from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import VOCAB, FakeModel
from tests.fakes.proposers import Answer, FakeProposer, Others, oracle
from tf_host.lanes import FixedDepths
from tf_host.lanes.depths import FORCED, Cut, DraftSample, Offer, StreamView
from tf_host.lanes.sources import Source
from tf_plugins.types import Draft, DraftRequest

WANTED = request([4, 2, 4], 40)
REPLY = naive(WANTED)[0]
RIGHT = oracle({WANTED.prompt: REPLY})
ASKED = DraftRequest(stream=1, context=[1, 2], most=4, seed=0, temperature=0.0, position=2, alternatives=3)

Known = Callable[[Draft], Any]


class Knowing(FakeProposer):
    """Says of its drafts what ``known`` does."""

    def __init__(self, answer: Answer, known: Known, name: str = "fake", others: Others = lambda *_: ()) -> None:
        super().__init__(answer, name, others=others)
        self.known = known

    def _draft(self, request: DraftRequest) -> Draft | None:
        draft = super()._draft(request)
        return draft and replace(draft, probabilities=self.known(draft))


def falling(draft: Draft) -> tuple[tuple[float, ...], ...]:
    """Another number for every draft and alternative."""
    beside = [*map(len, draft.alternatives), *[0] * len(draft.tokens)][: len(draft.tokens)]
    return tuple(
        (0.9 - place / 10, *(0.01 + place / 10 + n / 1_000 for n in range(count))) for place, count in enumerate(beside)
    )


class Seeing(FixedDepths):
    """Keeps what it is offered and asked; ``least`` is another number for every stream and proposer."""

    def __init__(self, *depths: int, beside: tuple[int, ...] = ()) -> None:
        super().__init__(*depths, beside=beside)
        self.offers: list[Offer] = []
        self.asked: list[tuple[str, int, int, int]] = []
        self.calls: list[DraftSample] = []

    def choose(self, stream: StreamView, proposer: int) -> int:
        self.asked.append(("choose", stream.id, stream.context, proposer))
        return super().choose(stream, proposer)

    def least(self, stream: StreamView, proposer: int) -> float:
        self.asked.append(("least", stream.id, stream.context, proposer))
        return least_of(stream.id, stream.context, proposer)

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        self.offers += offers
        return super().trim(offers)

    def record_draft(self, sample: DraftSample) -> None:
        self.calls.append(sample)


def least_of(stream: int, context: int, proposer: int) -> float:
    return (1 + proposer) / (100 * stream + context)


# What a proposer may answer


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([[0.5, 0.1]], "[2] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5, 0.1], [0.5], [0.5]], "[2, 1, 1] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5], [0.5]], "[1, 1] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5, 0.1, 0.1], [0.5]], "[3, 1] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5, 0.1], [0.5, 0.1]], "[2, 2] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5], [0.5, 0.1]], "[1, 2] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[], []], "[0, 0] probabilities, and its drafts and alternatives are [2, 1]"),
        ([[0.5, 0.1], [math.nan]], "a probability of nan"),
        ([[0.5, math.nan], [0.5]], "a probability of nan"),
        ([[-0.25, 0.1], [0.5]], "a probability of -0.25"),
        ([[0.5, 0.1], [1.0000001]], "a probability of 1.0000001"),
        ([[0.5, 2], [0.5]], "a probability of 2.0"),
        ([[0.5, 0.1], [math.inf]], "a probability of inf"),
        ([[0.5, 0.1], [-math.inf]], "a probability of -inf"),
    ],
)
def test_probabilities_that_break_the_rules_drop_the_draft(
    known: object, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Knowing(lambda asked: [7, 8] if asked.most > 1 else None, lambda draft: known, "bad", others=lambda *_: [[9]])
    good = FakeProposer(RIGHT, "good")
    lanes = make_lanes(FakeModel(leaves=True), proposers=[bad, good], depth=4)
    [sink] = decode(lanes, WANTED)
    assert sink.tokens == REPLY
    assert sink.done.drafted.keys() == {"good"}
    failures = lanes.snapshot().failures
    assert failures.keys() == {"bad"}
    assert failures["bad"].last == f"a draft was dropped: {said}"
    assert failures["bad"].count == sum(call[0].most > 1 for call in bad.calls) > 5  # it is asked again
    assert f"'bad': a draft was dropped: {said}" in caplog.text


@pytest.mark.parametrize(
    ("known", "error"),
    [
        ([["likely"], [0.5]], "ValueError"),
        ([[None], [0.5]], "TypeError"),
        ([[1j], [0.5]], "TypeError"),
        ([[10**400], [0.5]], "OverflowError"),
        ([0.5, 0.5], "TypeError"),
        (0.5, "TypeError"),
        (None, "TypeError"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_an_answer_of_another_kind(known: object, error: str) -> None:
    bad, good = Knowing(lambda asked: [7, 8][: asked.most], lambda draft: known, "bad"), FakeProposer(RIGHT, "good")
    lanes = make_lanes(proposers=[bad, good], depth=4)
    [sink] = decode(lanes, WANTED)
    assert sink.tokens == REPLY
    assert sink.done.drafted.keys() == {"good"}
    failure = lanes.snapshot().failures["bad"]
    assert failure.count == len(bad.calls) == 1
    assert failure.last.startswith(f"propose: {error}: ")


def test_a_dropped_draft_costs_no_other_stream_its_own() -> None:
    known = iter([[[1.5]], [[0.5]]] * 2)
    source = Source(0, Knowing(lambda asked: [7], lambda draft: next(known)), VOCAB)
    for stream in (1, 2):
        source.open(stream, [1], 10)
    for _ in range(2):
        assert source.propose([ASKED, replace(ASKED, stream=2)]) == [Draft(()), Draft((7,), (), ((0.5,),))]
    assert source.failures.count == 2


@pytest.mark.parametrize(
    ("known", "taken"),
    [
        (np.array([[0.5], [0.25]], np.float32), ((0.5,), (0.25,))),
        ([np.array([0.75], np.float16), [np.float64(0.125)]], ((0.75,), (0.125,))),
        ([[1], [0]], ((1.0,), (0.0,))),
        (((0.0,), (1.0,)), ((0.0,), (1.0,))),
        ((), ()),
        ([], ()),
    ],
    ids=["array", "halves", "whole numbers", "ends", "none", "an empty list"],
)
def test_numbers_of_any_kind_are_taken_as_floats(known: object, taken: tuple[tuple[float, ...], ...]) -> None:
    source = Source(0, Knowing(lambda asked: [7, 8], lambda draft: known), VOCAB)
    source.open(1, [1], 10)
    [draft] = source.propose([ASKED])
    assert (draft.tokens, draft.probabilities) == ((7, 8), taken)
    assert {type(each) for place in draft.probabilities for each in place} <= {float}
    assert type(draft.probabilities) is tuple
    assert {type(place) for place in draft.probabilities} <= {tuple}
    assert source.failures.count == 0


def test_a_draft_without_the_field_has_none() -> None:
    proposer = FakeProposer(RIGHT)
    proposer.propose = lambda requests: [  # type: ignore[method-assign]
        SimpleNamespace(tokens=RIGHT(asked))  # type: ignore[misc]
        for asked in requests
    ]
    depths = Seeing(4)
    [sink] = decode(make_lanes(proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    assert sink.done.kept["fake"] > 20
    assert {offer.probabilities for offer in depths.offers} == {()}


# What depths see


def test_depths_see_what_was_said_of_every_draft_and_alternative() -> None:
    others: Others = lambda asked, tokens: [[(token + 1) % VOCAB] * (n % 2) for n, token in enumerate(tokens[:2])]  # noqa: E731
    depths = Seeing(3, beside=(0, 1))
    proposer = Knowing(RIGHT, falling, others=others)
    [sink] = decode(make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    whole = [offer for offer in depths.offers if offer.tokens == 3]
    assert len(whole) > 5
    assert {(offer.beside, offer.probabilities) for offer in whole} == {((0, 1), ((0.9,), (0.8, 0.11), (0.7,)))}
    told = [offer.probabilities for sample in depths.calls for offer in sample.offers if offer.tokens == 3]
    assert told == [offer.probabilities for offer in whole]


def test_streams_and_proposers_keep_their_own() -> None:
    """Some drafts of a call have probabilities and others have none."""
    requests = [request([k], 30) for k in range(3)]
    first = Knowing(
        lambda asked: [3, 4][: asked.most] if asked.stream < 3 else None,
        lambda draft: [[0.5]] * len(draft.tokens) if first.calls[-1][0].position % 2 else (),
    )
    second = Knowing(lambda asked: [5], lambda draft: [[0.125]], "second")
    depths = Seeing(2)
    sinks = decode(make_lanes(proposers=[first, second], depths=depths), *requests)
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in requests]
    seen = {(offer.stream, offer.proposer, offer.probabilities) for offer in depths.offers if offer.tokens == 2}
    assert seen == {(n, 0, some) for n in (1, 2) for some in ((), ((0.5,), (0.5,)))}
    assert {offer.probabilities for offer in depths.offers if offer.proposer == 1} == {((0.125,),)}
    assert {offer.stream for offer in depths.offers if offer.proposer == 1} == {3}


class Likely(FixedDepths):
    """Verifies drafts and alternatives that are likely enough."""

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        return {
            offer.stream: Cut(
                sum(place[0] >= 0.75 for place in offer.probabilities),
                tuple(sum(each >= 0.1 for each in place[1:]) for place in offer.probabilities),
            )
            for offer in offers
        }


def test_depths_may_cut_by_what_was_said() -> None:
    others: Others = lambda asked, tokens: [[(t + 1) % VOCAB, (t + 2) % VOCAB] for t in tokens]  # noqa: E731
    proposer = Knowing(oracle({WANTED.prompt: REPLY}, 1), falling, others=others)
    [sink] = decode(make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=Likely(4)), WANTED)
    assert sink.tokens == REPLY
    # Of drafts at 0.9, 0.8, 0.7 two are likely, and the second alone has likely alternatives: 0.11 and 0.111.
    drafted = [outcome.drafted for outcome in proposer.outcomes]
    assert max(drafted) == 4
    assert drafted.count(4) > 5


# What a grammar cuts


def fitting(asked: DraftRequest, right: int) -> list[int]:
    """Drafts that ``PairGrammar`` allows up to a place, behind a prompt of two tokens."""
    return [10 + (asked.position + place + (place >= right)) % 2 for place in range(min(4, asked.most))]


def beside_them(asked: DraftRequest, tokens: Sequence[int]) -> list[list[int]]:
    """A wrong one before and behind a right one, none, then two right ones around a wrong one."""
    even = [20 + (asked.position + place) % 2 for place in range(3)]  # right in these places
    places = [[even[0] + 1, even[0] + 2, even[0] + 3], [], [even[2] + 2, even[2] + 1, even[2] + 4]]
    return places[: len(tokens)]


@pytest.mark.parametrize("right", range(5))
def test_what_a_grammar_cuts_off_takes_its_probability_with_it(right: int) -> None:
    wanted = request([3, 1], 60, grammar=PairGrammar)
    [plain] = decode(make_lanes(), wanted)
    depths = Seeing(4, beside=(3, 3, 3, 3))
    proposer = Knowing(lambda asked: fitting(asked, right), falling, others=beside_them)
    lanes = make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=depths)
    [sink] = decode(lanes, wanted)
    assert sink.tokens == plain.tokens
    assert lanes.snapshot().failures == {}
    given = [(0.9, 0.01, 0.011, 0.012), (0.8,), (0.7, 0.21, 0.211, 0.212), (0.6,)]
    left = [(given[0][0], given[0][2]), given[1], (given[2][0], given[2][1], given[2][3]), given[3]][:right]
    counts = (1, 0, 2)[:right]
    whole = [offer for offer in depths.offers if offer.tokens == right and offer.proposer != FORCED]
    assert len(whole) > 5
    for offer in whole:
        assert offer.beside == counts
        assert len(offer.probabilities) == right
        assert [pytest.approx(place) for place in left] == list(offer.probabilities)


def test_a_grammar_cuts_drafts_without_probabilities_as_before() -> None:
    depths = Seeing(4, beside=(3, 3, 3, 3))
    proposer = FakeProposer(lambda asked: fitting(asked, 3), others=beside_them)
    lanes = make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=depths)
    decode(lanes, request([3, 1], 60, grammar=PairGrammar))
    own = [offer for offer in depths.offers if offer.proposer != FORCED and offer.tokens == 3]
    assert {(offer.beside, offer.probabilities) for offer in own} == {((1, 0, 2), ())}


def test_forced_tokens_have_none() -> None:
    depths = Seeing(4)
    proposer = Knowing(lambda asked: fitting(asked, 4), falling)
    wanted = request([3, 1], 60, replace(WANTED.sampling, temperature=1.0, logit_bias={0: 3.0}), grammar=PairGrammar)
    decode(make_lanes(proposers=[proposer], depths=depths), wanted)
    forced = [offer for offer in depths.offers if offer.proposer == FORCED]
    assert forced
    assert {offer.probabilities for offer in forced} == {()}


# Where a draft may end


def test_a_request_says_where_a_further_draft_no_longer_pays() -> None:
    depths = Seeing(3)
    first = FakeProposer(lambda asked: RIGHT(asked) if len(first.calls) % 2 else None, "first")
    second = FakeProposer(RIGHT, "second")
    requests = [WANTED, request([1, 5], 30)]
    sinks = decode(make_lanes(proposers=[first, second], depths=depths), *requests)
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in requests]
    for index, proposer in enumerate((first, second)):
        asked = [one for call in proposer.calls for one in call]
        assert {one.stream for one in asked} == {1, 2}
        assert [one.least for one in asked] == [least_of(one.stream, one.position, index) for one in asked]


def test_it_is_asked_for_after_the_depth_and_only_of_whom_is_asked() -> None:
    depths = Seeing(0, 3)
    first, second = FakeProposer(RIGHT, "first"), FakeProposer(RIGHT, "second")
    decode(make_lanes(proposers=[first, second], depths=depths), WANTED)
    assert first.calls == []
    assert {asked[3] for asked in depths.asked if asked[0] == "choose"} == {0, 1}
    leasts = [at for at, asked in enumerate(depths.asked) if asked[0] == "least"]
    assert len(leasts) == len(second.calls) > 5
    for at in leasts:
        assert depths.asked[at - 1] == ("choose", *depths.asked[at][1:])
        assert depths.asked[at][3] == 1


def test_fixed_depths_want_whole_drafts() -> None:
    proposer = FakeProposer(RIGHT)
    decode(make_lanes(proposers=[proposer], depth=3), WANTED)
    assert {one.least for call in proposer.calls for one in call} == {0.0}


def test_a_draft_that_ends_by_it_is_as_good_as_any() -> None:
    class Half(Seeing):
        def least(self, stream: StreamView, proposer: int) -> float:
            return 0.5

    def ended(asked: DraftRequest) -> Sequence[int] | None:
        return (RIGHT(asked) or ())[: next(n for n in range(1, 99) if 0.75**n < asked.least)]

    depths = Half(9)
    proposer = Knowing(ended, lambda draft: [[0.75]] * len(draft.tokens))
    [sink] = decode(make_lanes(proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    assert max(offer.tokens for offer in depths.offers) == 3
    assert sink.done.kept == sink.done.drafted

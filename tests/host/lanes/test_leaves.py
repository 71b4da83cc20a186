"""Alternatives of drafts: verified as leaves, landed where they are the target's own, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.grammar import PairGrammar
from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.model import _entry as entry
from tests.fakes.proposers import FakeProposer, beside, oracle
from tests.fakes.reading import LetterReader
from tf_host.lanes import FixedDepths
from tf_host.lanes.depths import RoundSample
from tf_host.requests import Sampling
from tf_host.sampling.logprobs import RowLogprobs
from tf_plugins.types import DraftRequest, Window

WANTED = request([4, 2, 4], 40)
REPLY = naive(WANTED)[0]
REPLIES = {WANTED.prompt: REPLY}


class Told(FixedDepths):
    """Keeps what it is told of rounds."""

    def __init__(self, depth: int, beside: tuple[int, ...]) -> None:
        super().__init__(depth, beside=beside)
        self.rounds: list[RoundSample] = []

    def record_round(self, sample: RoundSample) -> None:
        self.rounds.append(sample)


def wrong_at(place: int, rank: int) -> FakeProposer:
    """Drafts that are right up to a place, where the reply's token is the alternative of that rank."""
    return FakeProposer(oracle(REPLIES, place), others=beside(REPLIES, rank))


def test_an_alternative_that_stands_lands_with_the_token_after_it() -> None:
    depths, model, proposer = Told(3, (0, 2)), FakeModel(leaves=True), wrong_at(1, 1)
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=depths), WANTED)
    assert sink.tokens == REPLY
    # A draft, its neighbour's alternative, and the target's own: three tokens a round of 1 + 3 + 2 rows.
    assert sink.done.rounds <= len(REPLY) / 3 + 3  # bucket edges cut some windows
    assert model.leaves_kept >= 10
    assert {(o.drafted, o.kept, o.leaf, o.next) for s in depths.rounds for o in s.outcomes} >= {(3, 1, True, 2)}
    assert max(sample.rows for sample in depths.rounds) == 6
    assert {(o.drafted, o.kept) for o in proposer.outcomes} >= {(5, 2)}
    sources = [token.source for delta in sink.deltas for token in delta.tokens]
    assert sources[:6] == ["fake", "fake", "target"] * 2
    assert sink.done.kept["fake"] == sources.count("fake")
    assert sink.done.drafted["fake"] == sum(o.drafted for o in proposer.outcomes)


def test_an_alternative_that_is_not_verified_lands_nothing() -> None:
    model = FakeModel(leaves=True)
    depths = Told(3, (0, 1))  # the reply's token is the second
    [sink] = decode(make_lanes(model, proposers=[wrong_at(1, 1)], depths=depths), WANTED)
    assert sink.tokens == REPLY
    assert model.leaves_kept == 0
    assert {(o.kept, o.leaf, o.next) for s in depths.rounds for o in s.outcomes} >= {(1, False, 2)}


def test_a_model_that_takes_none_is_given_none() -> None:
    asked: list[int] = []

    def others(request: DraftRequest, tokens: Sequence[int]) -> list[list[int]]:
        asked.append(request.alternatives)
        return []

    for leaves in (False, True):
        model = FakeModel(leaves=leaves)
        proposer = FakeProposer(oracle(REPLIES, 1), others=others)
        [sink] = decode(make_lanes(model, proposers=[proposer], depths=FixedDepths(3, beside=(2, 2))), WANTED)
        assert sink.tokens == REPLY
        assert {request.alternatives for call in proposer.calls for request in call} == {3 if leaves else 0}
    assert set(asked) == {3}


def test_a_reply_that_ends_with_an_alternative_ends_there() -> None:
    for left in range(1, 12):
        wanted = replace(WANTED, max_tokens=left)
        [sink] = decode(make_lanes(FakeModel(leaves=True), proposers=[wrong_at(1, 0)], depths=Told(3, (1, 1))), wanted)
        assert sink.tokens == REPLY[:left]
    for end in set(REPLY):
        wanted = replace(WANTED, end_ids=frozenset({end}))
        lanes = make_lanes(FakeModel(leaves=True), proposers=[wrong_at(0, 0)], depths=Told(2, (1, 1)))
        [sink] = decode(lanes, wanted)
        assert sink.tokens == REPLY[: REPLY.index(end) + 1]
        assert sink.done.reason == "stop"


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=3, temperature=0.9),
        Sampling(seed=3, temperature=0.9, top_p=0.8, frequency=0.5),
        Sampling(seed=3, repetition=1.4, presence=0.3),
    ],
    ids=["sampled", "nucleus and penalty", "greedy with penalties"],
)
def test_draws_behind_a_leaf_are_those_of_its_own_path(sampling: Sampling) -> None:
    wanted = request([4, 2, 4], 40, sampling, logprobs=2)
    reply = naive(wanted)[0]
    replies = {wanted.prompt: reply}
    model = FakeModel(leaves=True)
    proposer = FakeProposer(oracle(replies, 1), others=beside(replies))
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=FixedDepths(3, beside=(1, 1))), wanted)
    [plain] = decode(make_lanes(), wanted)
    assert sink.tokens == reply
    assert model.leaves_kept > 5
    infos = [[(t.logprob, t.top) for d in each.deltas for t in d.tokens] for each in (sink, plain)]
    assert infos[0] == infos[1]


def test_leaves_that_a_grammar_rejects_are_never_verified_and_others_land() -> None:
    warm = Sampling(seed=5, temperature=1.0, logit_bias={0: 3.0})
    wanted = request([3, 1], 60, warm, grammar=PairGrammar)
    [plain] = decode(make_lanes(), wanted)
    replies = {wanted.prompt: plain.tokens}
    model = FakeModel(leaves=True)
    seen: list[tuple[int, int]] = []

    def watch(windows: Sequence[Window]) -> None:
        seen.extend((len(window.tokens), leaf.token) for window in windows for leaf in window.leaves)

    model.on_verify = watch
    # The draft is wrong but of the right kind; one alternative is of the wrong kind, and one is the reply's.
    proposer = FakeProposer(
        lambda asked: [(token + 2) % 50 for token in oracle(replies)(asked) or ()][:1],
        others=lambda asked, tokens: [[(tokens[0] + 1) % 50, (tokens[0] - 2) % 50]],
    )
    [sink] = decode(make_lanes(model, proposers=[proposer], depths=FixedDepths(1, beside=(2,))), wanted)
    assert sink.tokens == plain.tokens
    assert model.leaves_kept > 5
    assert max(sink.done.drafted["fake"], 1) <= 2 * sink.done.rounds


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ([[1, 2, 3, 4]], "4 alternatives of at most 3"),
        ([[50]], "id 50 of 50"),
        ([[-1]], "id -1"),
        ([[1, 1]], "stands twice"),
        ([["draft"]], "that is the draft"),
        ([[], [], [], [], []], "alternatives in 5 places of 2"),
    ],
)
def test_alternatives_that_break_the_rules_drop_the_draft(
    place: list[list[object]], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    def others(asked: DraftRequest, tokens: Sequence[int]) -> list[list[int]]:
        return [[tokens[0] if token == "draft" else token for token in some] for some in place]  # type: ignore[misc]

    bad = FakeProposer(lambda asked: [7, 8][: asked.most], "bad", others=others)
    good = FakeProposer(oracle(REPLIES), "good")
    lanes = make_lanes(FakeModel(leaves=True), proposers=[bad, good], depth=4)
    [sink] = decode(lanes, WANTED)
    assert sink.tokens == REPLY
    assert sink.done.drafted.keys() == {"good"}
    assert said in caplog.text


ENDINGS = [{"max_tokens": left} for left in range(2, 20)] + [{"end_ids": [end]} for end in REPLY[:20]]


@pytest.mark.parametrize("more", ENDINGS)
def test_the_cache_holds_what_it_claims_however_a_reply_ends(more: dict[str, Any]) -> None:
    wanted = request(WANTED.prompt, **{"max_tokens": 40} | more)
    model, text = FakeModel(leaves=True), [*WANTED.prompt, *REPLY]
    keep, keep_leaf = model.keep, model.keep_leaf

    def check(cache: Any) -> None:
        for position in range(len(WANTED.prompt) - 1, cache.length):
            assert cache.entries[position] == entry(text[position], position, 0), position

    model.keep = lambda cache, rows: (keep(cache, rows), check(cache))  # type: ignore[method-assign,assignment]
    model.keep_leaf = lambda cache, rows, row: (  # type: ignore[method-assign,assignment]
        keep_leaf(cache, rows, row),
        check(cache),
    )
    decode(make_lanes(model, proposers=[wrong_at(0, 0)], depths=Told(2, (1, 1))), wanted)
    assert model.forwards


@pytest.mark.parametrize("broken", ["logprobs", "reader"])
def test_what_fails_on_a_leaf_fails_its_stream_alone(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(self: Any, token: int) -> Any:
        raise RuntimeError("planted")

    if broken == "logprobs":
        monkeypatch.setattr(RowLogprobs, "of", raises)
        bad = replace(WANTED, logprobs=2)
    else:
        bad = replace(WANTED, reader=type("Reader", (LetterReader,), {"feed": raises}))
    other = request([1, 3], 40)
    model = FakeModel(leaves=True)
    sinks = decode(make_lanes(model, proposers=[wrong_at(0, 0)], depths=Told(2, (1, 1))), bad, other)
    assert sinks[0].failed.status == 500
    assert sinks[1].tokens == naive(other)[0]
    assert model.leaves_kept == 0


def test_depths_are_told_where_the_target_s_own_token_stood() -> None:
    depths = Told(2, (1, 2))
    proposer = FakeProposer(oracle(REPLIES, 1), others=beside(REPLIES, 1))
    decode(make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=depths), WANTED)
    outcomes = [o for s in depths.rounds for o in s.outcomes]
    assert (2, 1, True, 2) in {(o.drafted, o.kept, o.leaf, o.next) for o in outcomes}
    assert {(o.kept, o.next) for o in outcomes if o.proposer is not None} <= {
        (1, 2),
        (1, None),
    }  # near an edge one draft is asked for

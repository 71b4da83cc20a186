"""A grammar masks each row along its own path, cuts drafts, and forces tokens."""

from __future__ import annotations

import pytest

from tests.fakes.grammar import PairGrammar
from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.proposers import FakeProposer, noise, oracle
from tf_host.requests import Sampling

WARM = Sampling(seed=5, temperature=1.0, logit_bias={0: 3.0})
WANTED = request([3, 1], 60, WARM, grammar=PairGrammar)


def plain() -> tuple[int, ...]:
    [sink] = decode(make_lanes(), request([3, 1], 60, WARM, grammar=PairGrammar, draft=False))
    return sink.tokens


@pytest.mark.exact
def test_a_reply_with_a_grammar_is_the_plain_one() -> None:
    reply = plain()
    assert all(token % 2 == index % 2 for index, token in enumerate(reply))
    assert reply.count(0) > 3
    unconstrained = naive(request([3, 1], 60, WARM))[0]
    assert reply != unconstrained
    for answer in (oracle({WANTED.prompt: reply}), oracle({WANTED.prompt: reply}, 2), noise(1, 50)):
        for depth in (1, 3, 7):
            [sink] = decode(make_lanes(proposers=[FakeProposer(answer)], depth=depth), WANTED)
            assert sink.tokens == reply


def test_drafts_that_the_grammar_rejects_are_never_verified() -> None:
    proposer = FakeProposer(lambda asked: [asked.position % 2, *[8] * 4][: asked.most])
    [sink] = decode(make_lanes(proposers=[proposer], depth=5), WANTED)
    assert sink.tokens == plain()
    assert all(outcome.drafted <= 2 for outcome in proposer.outcomes)


def test_forced_tokens_count_as_drafts() -> None:
    [sink] = decode(make_lanes(), WANTED)
    assert sink.tokens == plain()
    assert sink.done.kept["grammar"] == sink.done.drafted["grammar"] == sink.tokens[:-1].count(0)
    assert {token.source for delta in sink.deltas for token in delta.tokens if token.id == 1} >= {"grammar"}


@pytest.mark.parametrize("method", ["mask", "allowed_prefix", "commit", "forced"])
def test_a_grammar_that_raises_fails_its_stream_alone(method: str) -> None:
    broken = request([1], 20, grammar=lambda: PairGrammar(raises=method))
    other = request([2], 20)
    lanes = make_lanes(proposers=[FakeProposer(lambda asked: [2])])
    bad, good = decode(lanes, broken, other)
    assert bad.failed.status == 500
    assert good.tokens == naive(other)[0]
    assert lanes.snapshot().finished == {"error": 1, "length": 1}

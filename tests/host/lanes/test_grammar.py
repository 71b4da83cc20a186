"""A grammar masks each row along its own path, cuts drafts, and forces tokens."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.grammar import PairGrammar
from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, beside, noise, oracle
from tf_host.lanes import FixedDepths
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


class Ending(PairGrammar):
    """An end after three tokens or four, as a real grammar has it: behind it there are only more of them."""

    END = 11

    def __init__(self) -> None:
        super().__init__()
        self.landed = 0

    def mask(self, path: tuple[int, ...]) -> object:
        if self.END in path[:-1]:
            return None
        allowed = np.zeros(50, np.bool_)
        count = self.landed + len(path)
        allowed[self.END] = count >= 3
        if self.END not in path and self.landed < 4 and count < 4:
            allowed[:] = True
            allowed[self.END] = count >= 3
        return allowed

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        until = draft.index(self.END) if self.END in draft else len(draft)
        fits = min(until, max(0, 4 - self.landed))
        return fits + (fits == until < len(draft) and self.landed + until >= 3) if self.landed < 4 else 0

    def commit(self, tokens: tuple[int, ...]) -> None:
        self.landed = 4 if self.END in tokens else self.landed + len(tokens)

    def forced(self) -> tuple[int, ...]:
        return ()


@pytest.mark.parametrize("leaf", [False, True])
def test_an_end_that_is_ignored_is_drafted_as_it_is_drawn(leaf: bool) -> None:
    ends = 0
    for seed in range(20):
        wanted = request([3, 1], 12, Sampling(seed=seed, temperature=1.0, logit_bias={11: 3.0}), grammar=Ending)
        [plain] = decode(make_lanes(), wanted)
        ends += plain.tokens.count(11)
        right, beside_it = oracle({wanted.prompt: plain.tokens}), beside({wanted.prompt: plain.tokens})
        answer = oracle({wanted.prompt: plain.tokens}, 0) if leaf else right
        proposer = FakeProposer(answer, others=beside_it)
        depths = FixedDepths(1 if leaf else 6, beside=(1,))
        [sink] = decode(make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=depths), wanted)
        assert sink.tokens == plain.tokens
    assert ends > 100


class DeadEnd(PairGrammar):
    """Fails behind one token, which the reply never takes."""

    def mask(self, path: tuple[int, ...]) -> object:
        if 48 in path:
            raise RuntimeError("allows nothing more")
        return super().mask(path)


@pytest.mark.parametrize("leaf", [False, True])
def test_a_grammar_that_fails_behind_a_draft_alone_costs_that_draft_alone(leaf: bool) -> None:
    wanted = request([3, 1], 40, Sampling(seed=5, temperature=1.0, logit_bias={48: -100.0}), grammar=DeadEnd)
    [plain] = decode(make_lanes(), wanted)
    right = oracle({wanted.prompt: plain.tokens})
    even = lambda asked: len(asked.context) % 2 == 0  # noqa: E731
    proposer = FakeProposer(
        right if leaf else lambda asked: [48] if even(asked) else right(asked),
        others=lambda asked, tokens: [[48]] if even(asked) else [],
    )
    lanes = make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=FixedDepths(2, beside=(1, 1)))
    [sink] = decode(lanes, wanted)
    assert sink.tokens == plain.tokens
    assert sink.done.kept["fake"] > 10


def test_forced_tokens_count_as_drafts() -> None:
    [sink] = decode(make_lanes(), WANTED)
    assert sink.tokens == plain()
    assert sink.done.kept["grammar"] == sink.done.drafted["grammar"] == sink.tokens[:-1].count(0)
    assert {token.source for delta in sink.deltas for token in delta.tokens if token.id == 1} >= {"grammar"}


@pytest.mark.parametrize("method", ["allowed_prefix", "forced"])
def test_a_grammar_that_raises_where_only_drafts_ask_costs_no_reply(method: str) -> None:
    [plain] = decode(make_lanes(), request([1], 20, grammar=lambda: PairGrammar(raises=method), draft=False))
    lanes = make_lanes(proposers=[FakeProposer(lambda asked: [2])])
    [drafted] = decode(lanes, request([1], 20, grammar=lambda: PairGrammar(raises=method)))
    assert drafted.tokens == plain.tokens == decode(make_lanes(), request([1], 20, grammar=PairGrammar))[0].tokens
    assert lanes.snapshot().finished == {"length": 1}


@pytest.mark.parametrize("method", ["mask", "commit"])
def test_a_grammar_that_raises_fails_its_stream_alone(method: str) -> None:
    broken = request([1], 20, grammar=lambda: PairGrammar(raises=method))
    other = request([2], 20)
    lanes = make_lanes(proposers=[FakeProposer(lambda asked: [2])])
    bad, good = decode(lanes, broken, other)
    assert bad.failed.status == 500
    assert good.tokens == naive(other)[0]
    assert lanes.snapshot().finished == {"error": 1, "length": 1}

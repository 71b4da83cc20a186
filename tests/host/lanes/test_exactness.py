"""Replies do not depend on drafts, depths, neighbours, joins or cancels; a planted fault is seen."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.lanes import AllStates, CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import FAULTS, PLAN, VOCAB, FakeModel
from tests.fakes.proposers import FakeProposer, always, beside, noise, oracle
from tests.fakes.reading import Sink
from tf_host.lanes import FixedDepths
from tf_host.requests import Delta, Event, GenerateRequest, Sampling

pytestmark = pytest.mark.exact

SAMPLINGS = st.one_of(
    st.builds(Sampling, seed=st.integers(0, 5)),
    st.builds(
        Sampling,
        seed=st.integers(0, 2**64 - 1),
        temperature=st.sampled_from([0.0, 0.3, 1.0]),
        top_k=st.sampled_from([0, 1, 5, VOCAB]),
        top_p=st.sampled_from([1.0, 0.7]),
        min_p=st.sampled_from([0.0, 0.05]),
        repetition=st.sampled_from([1.0, 1.3]),
        presence=st.sampled_from([0.0, 0.5]),
        frequency=st.sampled_from([0.0, 0.4]),
        logit_bias=st.sampled_from([{}, {3: 4.0, 7: -100.0}]),
    ),
)

_SHARED = [k * k % 6 for k in range(80)]

PROMPTS = st.lists(st.integers(0, 5), min_size=1, max_size=70) | st.builds(
    lambda shared, rest: _SHARED[:shared] + rest,
    st.integers(0, 80),
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
)

REQUESTS = st.builds(
    request,
    prompt=PROMPTS,
    max_tokens=st.integers(1, 60),
    sampling=SAMPLINGS,
    stop=st.sampled_from([(), ("ab",), ("q",)]),
    end_ids=st.sampled_from([(), (11,), (3, 12)]),
    draft=st.booleans() | st.just(True),
    logprobs=st.sampled_from([None, None, 2]),
)


@st.composite
def scripts(draw: Any) -> list[tuple[int, GenerateRequest, int | None]]:
    """Requests with the turn that each is submitted at, and the tokens after which its client leaves."""
    return draw(
        st.lists(
            st.tuples(st.integers(0, 12), REQUESTS, st.none() | st.none() | st.integers(0, 10)), min_size=1, max_size=6
        )
    )


def proposers_for(kind: str, requests: list[GenerateRequest], seed: int) -> list[FakeProposer]:
    replies = {each.prompt: naive(each)[0] for each in requests}
    made = {
        "right": [FakeProposer(oracle(replies))],
        "partly": [FakeProposer(oracle(replies, right=2))],
        "noise": [FakeProposer(noise(seed, VOCAB))],
        "leaves": [FakeProposer(oracle(replies, right=seed % 4), others=beside(replies, seed % 3))],
        "both": [FakeProposer(noise(seed, VOCAB, 0.7), "first"), FakeProposer(oracle(replies, right=3), "second")],
        "stuck": [FakeProposer(always(4))],
        "none": [],
    }
    return made[kind]


def play(
    model: FakeModel,
    script: list[tuple[int, GenerateRequest, int | None]],
    kind: str,
    depth: int,
    parallel: int,
    states: bool,
    alternatives: tuple[int, ...] = (),
) -> list[Sink]:
    admission = CountAdmission(parallel)
    proposers = proposers_for(kind, [each for _, each, _ in script], depth)
    lanes = make_lanes(
        model,
        admission=admission,
        proposers=proposers,
        depths=FixedDepths(depth, beside=alternatives),
        states=AllStates(model.plan) if states else None,
    )
    sinks: list[Sink] = []
    pending = sorted(script, key=lambda item: item[0])
    turn = 0
    while pending:
        while pending and pending[0][0] <= turn:
            _, wanted, leaves = pending.pop(0)
            sinks.append(Sink(_leaver(leaves)))
            lanes.submit(wanted, sinks[-1])
        lanes.step()
        turn += 1
    run(lanes)
    assert admission.held == {}
    assert len(model.caches) == 0
    assert all(not proposer.streams for proposer in proposers)
    return sinks


def _leaver(after: int | None) -> Any:
    def on_event(sink: Sink, event: Event) -> None:
        if after is not None and isinstance(event, Delta) and len(sink.tokens) >= after:
            sink.cancelled = True

    return on_event


def check(sinks: list[Sink], script: list[tuple[int, GenerateRequest, int | None]]) -> None:
    for sink, (_, wanted, leaves) in zip(sinks, sorted(script, key=lambda item: item[0]), strict=True):
        tokens, text, reason = naive(wanted)
        if leaves is not None and not hasattr(sink.events[-1], "reason"):
            assert sink.failed.code == "cancelled"
            assert sink.tokens == tokens[: len(sink.tokens)]
            assert text.startswith(sink.text)
            continue
        assert sink.tokens == tokens == sink.done.tokens
        assert sink.text == text
        assert sink.done.reason == reason


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=scripts(),
    kind=st.sampled_from(["right", "partly", "leaves", "noise", "both", "stuck", "none"]),
    depth=st.integers(0, 15),
    parallel=st.integers(1, 5),
    states=st.booleans(),
    chains=st.booleans(),
    alternatives=st.lists(st.integers(0, 3), max_size=4).map(tuple),
)
def test_a_reply_is_the_plain_one_whatever_shares_its_rounds(
    script: Any, kind: str, depth: int, parallel: int, states: bool, chains: bool, alternatives: tuple[int, ...]
) -> None:
    model = FakeModel(chains=chains, leaves=True)
    check(play(model, script, kind, depth, parallel, states, alternatives), script)


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_is_seen(fault: str) -> None:
    rng = random.Random(7)
    script = [(turn, request([rng.randrange(6) for _ in range(9 + turn)], 50), None) for turn in (0, 3, 5, 9)]
    seen = FakeModel(faults=[fault], leaves=True)
    with pytest.raises(AssertionError):
        check(play(seen, script, "leaves", 6, 4, False, (0, 0, 1)), script)
    whole = FakeModel(leaves=True)
    check(play(whole, script, "leaves", 6, 4, False, (0, 0, 1)), script)
    assert whole.leaves_kept > 20


@pytest.mark.parametrize("depth", range(1, 16))
def test_greedy_at_every_depth(depth: int) -> None:
    wanted = request(range(6), 150)
    plain = naive(wanted)[0]
    for right in (None, 0, 1, 4):
        lanes = make_lanes(proposers=[FakeProposer(oracle({wanted.prompt: plain}, right))], depth=depth)
        [sink] = decode(lanes, wanted)
        assert sink.tokens == plain


def test_an_oracle_at_depth_5_keeps_its_drafts() -> None:
    wanted = request(range(6), 180)
    proposer = FakeProposer(oracle({wanted.prompt: naive(wanted)[0]}))
    lanes = make_lanes(proposers=[proposer], depth=5)
    for _ in range(3):
        [sink] = decode(lanes, wanted)
    snapshot = lanes.snapshot()
    assert snapshot.drafted["fake"] >= 300
    assert snapshot.kept == snapshot.drafted
    assert sink.done.rounds < 180 / 4


def test_sampled_replies_are_the_same_alone_and_together() -> None:
    requests = [request([2, 1, 2], 60, Sampling(seed=seed, temperature=0.8)) for seed in range(8)]
    alone = [decode(make_lanes(), each)[0].tokens for each in requests]
    together = decode(make_lanes(admission=CountAdmission(8)), *requests)
    assert [sink.tokens for sink in together] == alone
    assert len(set(alone)) == 8


def test_streams_that_accept_3_1_and_0_drafts_share_a_round() -> None:
    requests = [request([k, 1, 2, k], 40) for k in range(3)]
    replies = {each.prompt: naive(each)[0] for each in requests}
    rights = dict(zip(replies, (3, 1, 0), strict=True))

    def answer(asked: Any) -> Any:
        return next(
            oracle({prompt: replies[prompt]}, rights[prompt])(asked)
            for prompt in replies
            if tuple(asked.context[: len(prompt)]) == prompt
        )

    proposer = FakeProposer(answer)
    sinks = decode(make_lanes(proposers=[proposer], depth=4), *requests)
    for sink, each in zip(sinks, requests, strict=True):
        assert sink.tokens == replies[each.prompt]
    assert {(o.stream, o.kept) for o in proposer.outcomes if o.drafted == 4} >= {(1, 3), (2, 1), (3, 0)}


def test_a_cancel_at_each_token_leaves_the_others_alone() -> None:
    requests = [request([k, 4, k], 24) for k in range(3)]
    replies = {each.prompt: naive(each)[0] for each in requests}
    for after in range(1, 24):
        lanes = make_lanes(proposers=[FakeProposer(oracle(replies, 2))], depth=3)
        sinks = [Sink(_leaver(after if k == 1 else None)) for k in range(3)]
        for each, sink in zip(requests, sinks, strict=True):
            lanes.submit(each, sink)
        run(lanes)
        assert sinks[0].tokens == replies[requests[0].prompt]
        assert sinks[2].tokens == replies[requests[2].prompt]
        assert sinks[1].tokens == replies[requests[1].prompt][: len(sinks[1].tokens)]


def test_windows_meet_every_bucket_edge_and_the_end_of_the_context() -> None:
    for prompt in (1, 15, 16, 17, 31, 32, 33):
        wanted = request([k % 5 for k in range(prompt)], PLAN.context - prompt)
        reply = naive(wanted)[0]
        [sink] = decode(make_lanes(proposers=[FakeProposer(oracle({wanted.prompt: reply}))], depth=15), wanted)
        assert sink.tokens == reply
        assert len(sink.tokens) == PLAN.context - prompt


def test_a_shorter_reply_is_a_prefix_of_a_longer_one() -> None:
    short, long = (request([3, 3, 1], length) for length in (20, 100))
    assert decode(make_lanes(), long)[0].tokens[:20] == decode(make_lanes(), short)[0].tokens

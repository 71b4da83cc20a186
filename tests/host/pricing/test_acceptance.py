"""Acceptance: the prior, what a judged draft moves, and where a new stream starts."""

from __future__ import annotations

import random

import pytest

from tf_host.pricing.acceptance import RECENT, Acceptance, prior
from tf_host.pricing.streams import Streams


def after(outcomes: list[tuple[int, int]]) -> Acceptance:
    """The recent streams' acceptance once these windows were judged."""
    recent = Acceptance(quick=RECENT, steady=RECENT)
    for drafted, kept in outcomes:
        recent.judge(kept, missed=kept < drafted)
    return recent


def test_the_prior_by_depth() -> None:
    assert [prior(depth) for depth in range(1, 10)] == [0.85, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.5, 0.5]
    assert Acceptance().chances(8) == [0.85, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.5]


@pytest.mark.parametrize(("kept", "missed"), [(0, True), (2, True), (5, False), (0, False)])
def test_drafts_are_judged_up_to_the_first_that_fell(kept: int, missed: bool) -> None:
    hits = after([(1, 1)] * 200)
    stream = Acceptance(hits, quick=0.15, steady=0.15)
    stream.judge(kept, missed=missed)
    assert stream.mean == pytest.approx(0.85**missed)


def test_one_judged_draft_moves_the_quick_mean_by_fifteen_hundredths() -> None:
    stream = Acceptance(after([(1, 1), (1, 0)] * 100))
    before = stream.mean
    stream.judge(1, missed=False)
    assert stream.mean == pytest.approx(before + (0.15 + 0.03) / 2 * (1 - before))


def test_a_run_of_misses_moves_it_by_the_steady_rate() -> None:
    stream = Acceptance(after([(1, 1)] * 200))
    for _ in range(3):
        stream.judge(0, missed=True)
    assert stream.mean == pytest.approx(0.97**3)


def test_the_first_judged_drafts_are_averaged_so_that_a_few_say_something() -> None:
    stream = Acceptance()
    for kept in (1, 1, 0, 1):
        stream.judge(kept, missed=not kept)
    assert 0.6 < stream.mean < 0.8
    assert stream.chances(1)[0] == pytest.approx(stream.mean + 6 / 10 * (0.85 - stream.mean))


def test_it_finds_the_acceptance_of_a_long_stream() -> None:
    rng, stream, means = random.Random(1), Acceptance(), []
    for _ in range(2_000):
        kept = next((k for k in range(4) if rng.random() >= 0.6), 4)
        stream.judge(kept, missed=kept < 4)
        means.append(stream.mean)
    assert sum(means[200:]) / len(means[200:]) == pytest.approx(0.6, abs=0.04)


def test_a_new_stream_starts_from_the_recent_ones() -> None:
    streams = Streams()
    for stream in range(10):
        streams.open(stream, sampled=False)
        for _ in range(30):
            streams.judged(stream, 0, 0, missed=True)
        streams.close(stream)
    streams.open(99, sampled=False)
    assert streams.drafts(99, 0).acceptance.chances(1)[0] < 0.05


def test_greedy_and_sampled_streams_have_recent_acceptances_of_their_own() -> None:
    streams = Streams()
    streams.open(1, sampled=False)
    streams.open(2, sampled=True)
    for _ in range(100):
        streams.judged(1, 0, 1, missed=False)
        streams.judged(2, 0, 0, missed=True)
    streams.open(3, sampled=False)
    streams.open(4, sampled=True)
    assert streams.drafts(3, 0).acceptance.mean > 0.95
    assert streams.drafts(4, 0).acceptance.mean < 0.2


def test_what_is_left_of_a_reply_follows_recent_lengths_and_the_limit() -> None:
    streams = Streams()
    assert streams.left(0, 8_000) == 128
    assert streams.left(0, 20) == 20
    assert streams.left(500, 8_000) == 64
    for stream in range(60):
        streams.open(stream, sampled=False)
        streams.replied(stream, 30)
        streams.close(stream)
    assert streams.left(0, 8_000) == pytest.approx(30, rel=0.02)


def test_a_reply_is_hoped_to_draft_better_until_its_own_drafts_say() -> None:
    recent = Acceptance(quick=RECENT, steady=RECENT)
    for _ in range(50):
        recent.judge(1, missed=True)
    hoped, plain = Acceptance(recent, hope=0.1), Acceptance(recent)
    ahead = [a - b for a, b in zip(hoped.chances(4), plain.chances(4), strict=True)]
    assert ahead[0] == pytest.approx(0.1, rel=0.1)
    for each in (hoped, plain):
        each.judge(4, missed=True)
        each.judge(2, missed=True)
    assert hoped.chances(4)[0] - plain.chances(4)[0] == pytest.approx(ahead[0] / 2, rel=0.1)
    for mean in (0, 9):
        recent.judge(20 * mean, missed=not mean)
        assert 0 <= min(Acceptance(recent, hope=0.25).chances(4)) <= max(Acceptance(recent, hope=0.25).chances(4)) <= 1

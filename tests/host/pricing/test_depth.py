"""The depth rules against brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_host.pricing.depth import alone, landed, together

CHANCE = st.floats(0.0, 1.0)
SECONDS = st.floats(0.001, 1.0)
STEPS = st.lists(st.floats(0.0, 0.05), min_size=32, max_size=32)


def rising(first: float, steps: list[float]) -> list[float]:
    """A cost that never falls, with steps and flats as bands make them."""
    costs = [first]
    for step in steps:
        costs.append(costs[-1] + (step if step > 0.02 else 0.0))
    return costs


@pytest.mark.parametrize(("p", "expected"), [(0.0, [1, 1, 1, 1]), (0.5, [1, 1.5, 1.75, 1.875]), (1.0, [1, 2, 3, 4])])
def test_expected_tokens_are_the_powers_of_one_chance(p: float, expected: list[float]) -> None:
    assert landed([p] * 3) == pytest.approx(expected)


def test_expected_tokens_of_unequal_chances_and_of_a_proposer_that_answers_half_the_time() -> None:
    assert landed([0.8, 0.5]) == pytest.approx([1, 1.8, 1.8 + 0.4])
    assert landed([0.8, 0.5], answered=0.5) == pytest.approx([1, 1.4, 1.6])


@given(p=CHANCE, plain=SECONDS, steps=STEPS, step=st.floats(0.0, 0.3), reading=st.floats(0.0, 0.1))
@settings(max_examples=150)
def test_alone_is_the_best_of_every_depth(
    p: float, plain: float, steps: list[float], step: float, reading: float
) -> None:
    rounds = rising(plain, steps)[:16]
    rates = [
        sum(p**i for i in range(k + 1))
        / (rounds[k] + k * step + (reading * sum(p**i for i in range(k + 1)) if k else 0))
        for k in range(16)
    ]
    depth, rate = alone(landed([p] * 15), rounds, [k * step for k in range(16)], reading)
    assert rates[depth] == pytest.approx(max(rates), rel=1e-9)
    assert rate == pytest.approx(max(rates), rel=1e-9)


@pytest.mark.parametrize(
    ("p", "step", "depth"),
    [
        (0.8, 0.010, 4),
        (0.5, 0.010, 2),
        (0.17, 0.010, 0),  # 1.17 tokens in 93 ms are fewer a second than 1 in 76
        (1.0, 0.010, 15),
        (1.0, 0.080, 0),  # a step as long as a round never pays
        (0.0, 0.0, 0),
    ],
)
def test_alone_on_the_costs_of_a_cpu(p: float, step: float, depth: int) -> None:
    rounds = [0.076 + 0.004 * k for k in range(16)]
    rounds[1] = 0.083
    assert alone(landed([p] * 15), rounds, [k * step for k in range(16)])[0] == depth


def test_a_step_in_the_round_costs_is_climbed_only_where_it_pays() -> None:
    banded = [0.024] * 8 + [0.060] * 8
    assert alone(landed([0.9] * 15), banded, [0.0] * 16)[0] == 7
    assert alone(landed([1.0] * 15), [0.024] * 8 + [0.040] * 8, [0.0] * 16)[0] == 15


def test_reading_a_long_prompt_for_a_short_reply_does_not_pay() -> None:
    rounds, chain = [0.076 + 0.004 * k for k in range(16)], [0.01 * k for k in range(16)]
    assert alone(landed([0.8] * 15), rounds, chain, reading=3.0 / 400)[0] > 0
    assert alone(landed([0.8] * 15), rounds, chain, reading=3.0 / 20)[0] == 0


@given(
    chances=st.tuples(CHANCE, CHANCE),
    limits=st.tuples(st.integers(0, 15), st.integers(0, 15)),
    plain=SECONDS,
    steps=STEPS,
    step=st.floats(0.0, 0.2),
    batch=st.floats(0.0, 1.0),
    entry=st.tuples(st.sampled_from([0.0, 0.01, 0.2]), st.sampled_from([0.0, 0.05])),
    tokens=st.sampled_from([0.0, 2.5]),
)
@settings(max_examples=150, deadline=None)
def test_together_is_the_best_of_all_pairs(
    chances: tuple[float, float],
    limits: tuple[int, int],
    plain: float,
    steps: list[float],
    step: float,
    batch: float,
    entry: tuple[float, float],
    tokens: float,
) -> None:
    rounds, chain = rising(plain, steps), [k * step for k in range(16)]
    batch *= step
    gains = [landed([p] * limit) for p, limit in zip(chances, limits, strict=True)]

    def rate(depths: tuple[int, ...]) -> float:
        drafts, deepest = sum(depths), max(depths)
        seconds = rounds[drafts] + chain[deepest] + batch * (drafts - deepest)
        seconds += sum(cost for cost, k in zip(entry, depths, strict=True) if k)
        return (tokens + sum(gain[k] for gain, k in zip(gains, depths, strict=True))) / seconds

    best = max(rate(depths) for depths in product(*(range(limit + 1) for limit in limits)))
    chosen = together(gains, rounds, chain, batch, entry, tokens)
    assert rate(chosen) == pytest.approx(best, rel=1e-9)


@given(chances=st.tuples(CHANCE, CHANCE, CHANCE), plain=SECONDS, steps=STEPS, step=st.floats(0.0, 0.1))
@settings(max_examples=60, deadline=None)
def test_together_is_the_best_of_all_triples(
    chances: tuple[float, float, float], plain: float, steps: list[float], step: float
) -> None:
    rounds, gains = rising(plain, steps), [landed([p] * 5) for p in chances]
    rates = {
        depths: sum(g[k] for g, k in zip(gains, depths, strict=True)) / (rounds[sum(depths)] + step * max(depths))
        for depths in product(range(6), repeat=3)
    }
    chosen = together(gains, rounds, [step * k for k in range(6)])
    assert rates[chosen] == pytest.approx(max(rates.values()), rel=1e-9)


def test_together_is_all_zero_only_where_drafting_costs_more_than_it_lands() -> None:
    rounds, chain = [0.08 + 0.005 * k for k in range(31)], [0.01 * k for k in range(16)]
    assert together([landed([0.05] * 15)] * 2, rounds, chain) == (0, 0)
    first, second = together([landed([0.05] * 15), landed([0.9] * 15)], rounds, chain)
    assert first == 0
    assert second > 0


def test_together_of_nobody_and_of_streams_that_may_not_draft() -> None:
    assert together([], [0.1], [0.0]) == ()
    assert together([[1.0], [1.0]], [0.1], [0.0]) == (0, 0)

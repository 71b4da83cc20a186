"""The fit of round costs against synthetic rounds."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tf_host.pricing.rounds import RoundCosts
from tf_plugins.rows import RowPlan

PLAN = RowPlan.for_device("cpu", 8_192, widths=tuple(range(1, 17)), tile=1)


def banded(rows: int) -> float:
    """A step function, as kernels make it."""
    return 0.050 if rows == 1 else 0.060 if rows <= 4 else 0.090 if rows <= 12 else 0.130


def feed(
    costs: RoundCosts, truth: Callable[[int, int], float], buckets: list[int], *, noise: float, rounds: int = 1_500
) -> None:
    rng = random.Random(3)
    for index in range(rounds):
        bucket = buckets[index * len(buckets) // rounds]
        rows = rng.choice([1, 2, 4, 5, 8, 12, 13, 16])
        costs.record(rows, bucket, truth(rows, bucket) * rng.gauss(1, noise))


def test_steps_are_found_through_noise() -> None:
    costs = RoundCosts(PLAN)
    feed(costs, lambda rows, bucket: banded(rows), [256], noise=0.05)
    for rows in (1, 2, 4, 5, 8, 12, 13, 16):
        assert costs.seconds(rows, 256) == pytest.approx(banded(rows), rel=0.06)
    assert costs.seconds(5, 256) - costs.seconds(4, 256) > 0.02  # no line through the steps
    assert costs.seconds(4, 256) - costs.seconds(2, 256) < 0.005


def test_attention_is_priced_by_the_keys_in_view() -> None:
    def truth(rows: int, bucket: int) -> float:
        return banded(rows) + 1.2e-5 * bucket * rows  # one query a call

    costs = RoundCosts(PLAN)
    feed(costs, truth, [256, 512, 768, 1_024], noise=0.03)
    for rows in (1, 4, 8, 16):
        for bucket in (1_024, 2_048):
            assert costs.seconds(rows, bucket) == pytest.approx(truth(rows, bucket), rel=0.15)
    plain, wide = costs.seconds(1, 8_192), costs.seconds(8, 8_192)
    assert wide / plain > 4  # the ratio of a wide round to a plain one grows with the context


def test_between_timed_widths_it_is_interpolated() -> None:
    costs = RoundCosts(PLAN)
    for rows, seconds in ((1, 0.05), (4, 0.06), (8, 0.08)):
        costs.record(rows, 256, seconds)
    assert costs.seconds(6, 256) == pytest.approx(0.07)
    assert costs.seconds(2, 256) == pytest.approx(0.05 + 0.01 / 3)


def test_a_first_long_prompt_teaches_the_slope_at_once() -> None:
    def truth(rows: int, bucket: int) -> float:
        return banded(rows) + 1.2e-5 * bucket * rows

    costs = RoundCosts(PLAN)
    for rows in (1, 4, 2, 6, 1, 8, 3, 12, 16, 1):
        costs.record(rows, 256, truth(rows, 256))
    costs.record(4, 8_192, truth(4, 8_192))
    for rows in (1, 4, 12):
        assert costs.seconds(rows, 8_192) == pytest.approx(truth(rows, 8_192), rel=0.1)


def test_shared_rounds_stand_in_only_past_the_widest() -> None:
    costs = RoundCosts(PLAN)
    costs.lend(4, 256, 0.09)
    assert (costs.widest, costs.seconds(4, 256)) == (4, 0.09)
    costs.record(1, 256, 0.05)
    costs.record(4, 256, 0.06)
    costs.lend(2, 256, 0.09)
    costs.lend(8, 256, 0.12)
    assert [costs.seconds(rows, 256) for rows in (1, 4, 8)] == [0.05, 0.06, 0.12]
    assert costs.age(8) is None


def test_the_mean_moves_by_a_fifth() -> None:
    costs = RoundCosts(PLAN)
    costs.record(4, 256, 0.100)
    costs.record(4, 256, 0.110)
    assert costs.seconds(4, 256) == pytest.approx(0.102)


def test_a_width_seldom_timed_follows_faster() -> None:
    costs = RoundCosts(PLAN)
    costs.record(4, 256, 0.100)
    for _ in range(50):
        costs.record(1, 256, 0.040)
    costs.record(4, 256, 0.050)
    assert costs.seconds(4, 256) == pytest.approx(0.100 - (1 - 0.8**4) * 0.050)


def test_one_pause_of_the_machine_moves_little_and_a_lasting_change_gets_through() -> None:
    costs = RoundCosts(PLAN)
    for _ in range(20):
        costs.record(4, 256, 0.100)
    costs.record(4, 256, 5.0)
    assert costs.seconds(4, 256) == pytest.approx(0.110)
    for _ in range(20):
        costs.record(4, 256, 0.300)
    assert costs.seconds(4, 256) == pytest.approx(0.300, rel=0.05)


def test_a_wider_round_is_never_cheaper() -> None:
    costs = RoundCosts(PLAN)
    for rows, seconds in ((1, 0.05), (4, 0.07), (5, 0.06), (8, 0.09)):
        costs.record(rows, 256, seconds)
    priced = [costs.seconds(rows, 256) for rows in range(1, 17)]
    assert priced == sorted(priced)
    assert costs.seconds(4, 256) == costs.seconds(5, 256) == pytest.approx(0.065)
    assert costs.seconds(16, 256) == costs.seconds(8, 256)  # nothing is made up past what was timed


def test_padded_rows_cost_what_their_width_costs() -> None:
    costs = RoundCosts(RowPlan.for_device("gpu", 8_192, widths=(2, 8, 16), tile=16))
    for rows, seconds in ((2, 0.02), (8, 0.03), (16, 0.04)):
        costs.record(rows, 256, seconds)
    assert [costs.seconds(rows, 256) for rows in (1, 2, 3, 8, 9, 16)] == [0.02, 0.02, 0.03, 0.03, 0.04, 0.04]


def test_more_rows_than_a_forward_holds_are_several_forwards() -> None:
    costs = RoundCosts(PLAN)
    for rows in range(1, 17):
        costs.record(rows, 256, banded(rows))
    priced = costs.by_drafts(streams=4, drafts=20, bucket=0)
    assert priced[12] == pytest.approx(banded(16))
    assert priced[13] == pytest.approx(banded(16) + banded(1))
    assert priced[20] == pytest.approx(banded(16) + banded(8))


def test_nothing_is_known_before_anything_was_timed() -> None:
    costs = RoundCosts(PLAN)
    assert costs.widest == 0
    assert costs.age(1) is None
    assert costs.seconds(4, 256) == 0

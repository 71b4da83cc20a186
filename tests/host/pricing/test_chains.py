"""What drafting costs."""

from __future__ import annotations

import pytest

from tf_host.pricing.chains import ChainCosts
from tf_plugins.types import Costs


def test_a_proposer_that_reports_nothing_is_priced_by_the_stopwatch() -> None:
    costs = ChainCosts()
    costs.record((3,), 0, 0.6)
    assert costs.chain(3) == pytest.approx(0.6)
    assert costs.chain(1) == pytest.approx(0.2)
    assert costs.chain(6) == pytest.approx(1.2)
    assert costs.chain(0) == 0


def test_the_larger_of_reported_and_measured_is_priced() -> None:
    costs = ChainCosts()
    costs.reported = Costs(step=0.02, batch=0.001, read=0.0005)
    assert (costs.chain(5), costs.batch, costs.read) == pytest.approx((0.1, 0.001, 0.0005))
    costs.record((5,), 0, 0.3)
    assert costs.chain(5) == pytest.approx(0.3)
    costs.reported = Costs(step=0.09)
    assert costs.chain(5) == pytest.approx(0.45)


def test_a_fixed_part_of_a_call_shows_in_the_curve() -> None:
    costs = ChainCosts()
    for depth in (1, 2, 4, 8):
        for _ in range(10):
            costs.record((depth,), 0, 0.010 + 0.002 * depth)
    assert costs.chain(8) == pytest.approx(0.026)
    assert costs.chain(6) == pytest.approx(0.022)
    assert costs.chain(1) == pytest.approx(0.012)


def test_reading_is_told_from_drafting() -> None:
    costs = ChainCosts()
    costs.record((3,), 4, 0.03)
    costs.record((3,), 1_500, 0.03 + 1_500 * 0.0002)
    assert costs.chain(3) == pytest.approx(0.03)
    assert costs.read == pytest.approx(0.0002)


def test_reading_alone_prices_reading_alone() -> None:
    costs = ChainCosts()
    costs.record((3,), 0, 0.03)
    costs.record_read(100, 0.02)
    assert costs.read == pytest.approx(0.0002)
    costs.record_read(200, 0.08)
    assert costs.read == pytest.approx(0.00024)
    assert costs.chain(3) == pytest.approx(0.03)


def test_a_first_call_that_reads_is_not_all_reading() -> None:
    costs = ChainCosts()
    costs.record((4,), 100, 2.0)  # half a second a step
    assert costs.chain(1) > 0.1
    costs = ChainCosts()
    costs.record((4,), 1_500, 0.34)  # ten milliseconds a step
    assert costs.chain(1) < 0.01


def test_a_second_stream_in_the_call_costs_what_it_adds() -> None:
    costs = ChainCosts()
    costs.record((4,), 0, 0.04)
    costs.record((4, 2), 0, 0.05)
    assert costs.chain(4) == pytest.approx(0.04)
    assert costs.batch == pytest.approx(0.005)


def test_shared_calls_stand_in_where_one_stream_never_drafted() -> None:
    costs = ChainCosts()
    costs.record((4, 4), 0, 0.05)
    assert costs.chain(4) == pytest.approx(0.05)
    assert costs.batch == 0

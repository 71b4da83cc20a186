"""What is stale moves with the plain round, and only with one of its kind."""

from __future__ import annotations

import pytest

from tests.fakes.priced_server import PLAN
from tf_host.pricing.chains import ChainCosts
from tf_host.pricing.means import STALE
from tf_host.pricing.plain import Plain
from tf_host.pricing.rounds import RoundCosts
from tf_plugins.types import Costs


def test_what_is_stale_is_priced_by_how_much_longer_than_a_plain_round_it_took() -> None:
    plain = Plain()
    plain.feed(0.3, queued=False)
    stamp = plain.stamp()
    for _ in range(60):
        plain.now += 1
        plain.feed(0.1, queued=False)
    assert plain.renewal(stamp) == 1.0
    plain.now += STALE
    assert plain.renewal(stamp) == pytest.approx(1 / 3, rel=0.01)
    assert plain.renewal(plain.stamp()) == 1.0
    assert plain.renewal(None) == 1.0


def test_a_round_that_was_queued_says_nothing_of_those_that_were_not() -> None:
    plain = Plain()
    plain.feed(0.3, queued=False)
    stamp = plain.stamp()
    plain.now = STALE
    plain.feed(0.1, queued=True)
    assert plain.renewal(stamp) == 1.0
    both = plain.stamp()
    plain.now = 2 * STALE
    plain.feed(0.3, queued=True)
    assert plain.renewal(both) > 2


def test_widths_and_chains_move_and_what_is_measured_again_does_not() -> None:
    plain = Plain()
    rounds, chain = RoundCosts(PLAN, plain), ChainCosts(plain)
    chain.reported = Costs(step=0.02)
    for _ in range(10):
        rounds.record(1, 256, 0.3)
        rounds.record(4, 256, 0.36)
        rounds.record(8, 256, 0.45)
    chain.record((3,), 0, 0.09)
    for _ in range(STALE):
        plain.now += 1
        rounds.record(1, 256, 0.1)
    chain.renew()
    assert rounds.seconds(4, 256) == pytest.approx(0.12, rel=0.01)
    assert rounds.seconds(8, 256) == pytest.approx(0.15, rel=0.01)
    assert chain.chain(3) == pytest.approx(0.03, rel=0.01)
    rounds.record(4, 256, 0.13)
    assert 0.12 < rounds.seconds(4, 256) < 0.13  # from what it is now, not from what it was
    assert rounds.seconds(8, 256) == pytest.approx(0.15, rel=0.01)
    assert rounds.seconds(1, 256) == pytest.approx(0.1, rel=0.01)
    chain.record((3,), 0, 0.03)
    chain.renew()
    assert chain.chain(3) == pytest.approx(0.06)  # what the proposer reports is of this call
    chain.reported = Costs()
    assert chain.chain(3) == pytest.approx(0.03, rel=0.01)


def test_reading_and_further_streams_move_too() -> None:
    plain = Plain()
    chain = ChainCosts(plain)
    plain.feed(0.3, queued=False)
    chain.record((3,), 0, 0.09)
    chain.record((3, 3), 0, 0.12)
    chain.record_read(100, 0.6)
    before = chain.batch, chain.read
    plain.now = STALE
    for _ in range(40):
        plain.feed(0.1, queued=False)
    assert (chain.batch, chain.read) == pytest.approx([each / 3 for each in before], rel=0.05)


def test_a_plain_round_counts_once_in_its_own_width() -> None:
    plain = Plain()
    rounds = RoundCosts(PLAN, plain)
    rounds.record(1, 256, 0.3)
    for _ in range(STALE):
        plain.now += 1
        rounds.record(4, 256, 0.36)
    alone = RoundCosts(PLAN)
    alone.record(1, 256, 0.3)
    for _ in range(STALE):
        alone.record(4, 256, 0.36)
    for costs in (rounds, alone):
        costs.record(1, 256, 0.2)
    assert rounds.seconds(1, 256) == alone.seconds(1, 256)

"""Which rows are worth most, and what pricing learns of alternatives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.priced_server import PLAN, Drafter
from tests.host.pricing.test_pricing import time_rounds, view
from tf_host.lanes.depths import NEITHER, Cut, DraftSample, Offer, Outcome, RoundSample
from tf_host.pricing import Pricing
from tf_host.pricing.depth import rate
from tf_host.pricing.leaves import PRIOR, Alternatives, expected, ranked, widened
from tf_host.pricing.means import STALE

CHANCE = st.floats(0.0, 1.0)
FALLING = st.lists(st.floats(0.0, 0.4), min_size=1, max_size=2).map(lambda found: sorted(found, reverse=True))


def lands(chances: list[float], alternatives: list[float], cut: Cut) -> float:
    """Expected tokens of a window, place by place."""
    total, reached = 1.0, 1.0
    for place, chance in enumerate(chances[: cut.tokens]):
        some = cut.beside[place] if place < len(cut.beside) else 0
        total += reached * (chance + sum(min((1 - chance) * other, chance) for other in alternatives[:some]))
        reached *= chance
    return total


@given(chances=st.lists(CHANCE, min_size=1, max_size=4), alternatives=FALLING, rows=st.integers(0, 6))
@settings(max_examples=200, deadline=None)
def test_the_best_rows_land_as_much_as_any_window_of_so_many(
    chances: list[float], alternatives: list[float], rows: int
) -> None:
    offered = [len(alternatives)] * len(chances)
    found = ranked(expected(chances, alternatives, offered), rows)
    cut = found.cut(rows)
    counts = range(len(alternatives) + 1)
    ways = [
        Cut(depth, some)
        for depth in range(len(chances) + 1)
        for some in product(counts, repeat=depth)
        if depth + sum(some) <= rows
    ]
    assert found.landed[-1] == pytest.approx(lands(chances, alternatives, cut))
    assert found.landed[-1] == pytest.approx(max(lands(chances, alternatives, way) for way in ways))
    assert list(found.gains) == sorted(found.gains, reverse=True)


def test_only_what_is_offered_is_ranked() -> None:
    found = ranked(expected([0.5, 0.5], [0.4, 0.3], (1,)), 9)
    assert found.places == ((0, 0), (1, 0), (0, 1))
    assert found.cut(9) == Cut(2, (1, 0))
    assert found.cut(0) == Cut(0)


@given(chances=st.lists(CHANCE, min_size=1, max_size=5), alternatives=FALLING, rises=st.floats(0.0, 0.2))
@settings(max_examples=100, deadline=None)
def test_by_depth_with_the_alternatives_that_pay(chances: list[float], alternatives: list[float], rises: float) -> None:
    rounds = [1 + rises * rows for rows in range(8)]
    tokens, seconds = widened(chances, alternatives, rounds)
    for depth in range(len(chances) + 1):
        some = chances[:depth]
        best = 0.0
        for rows in range(depth, 8):
            # The drafts stay, whatever an alternative is worth.
            leaves = [gain for place, gain in _leaves(some, alternatives)]
            landed = lands(some, [], Cut(depth)) + sum(sorted(leaves, reverse=True)[: rows - depth])
            best = max(best, rate(landed, rounds[rows]))
        assert rate(tokens[depth], seconds[depth]) == pytest.approx(best)


def _leaves(chances: list[float], alternatives: list[float]) -> list[tuple[int, float]]:
    found, reached = [], 1.0
    for place, chance in enumerate(chances):
        found += [(place, min(reached * (1 - chance) * other, reached * chance)) for other in alternatives]
        reached *= chance
    return found


def test_alternatives_start_from_what_is_known_of_a_drafter_and_are_learned() -> None:
    known = Alternatives()
    assert known.chances == list(PRIOR)
    for turn in range(1_000):
        known.judge(2, 1 if turn % 2 else 0)
    first, second, third = known.chances
    assert first == pytest.approx(0.5, abs=0.03)
    assert second < 0.03
    assert third == second  # never tried, and no better than the one before it


def priced(row: float) -> Pricing:
    """Alone with a drafter that is right 19 times of 20, and rounds that a row more makes so much longer."""
    pricing = Pricing(PLAN, [Drafter(step=0.001)])
    time_rounds(pricing, lambda rows: 0.08 + row * rows)
    return pricing


def turn(pricing: Pricing, kept: int, stood: int = 0, drafted: int = 4, row: float = 0.0) -> Cut:
    """A round of a stream alone whose draft has three alternatives a place; what was verified."""
    pricing.plan([view(1)])
    pricing.choose(view(1), 0)
    offer = Offer(1, 0, drafted, (3,) * drafted)
    pricing.record_draft(DraftSample(0, (offer,), 0, 0.004))
    cut = pricing.trim([offer])[1]
    beside = cut.beside[kept] if kept < len(cut.beside) else 0
    rows = 1 + cut.tokens + sum(cut.beside)
    own = (stood or NEITHER) if kept <= cut.tokens else 0  # what was cut off would have stood
    outcome = Outcome(1, 100, 0, cut.tokens, min(kept, cut.tokens), leaf=0 < stood <= beside, next=own)
    pricing.record_round(RoundSample(rows, (rows,), 0.08 + row * rows, (outcome,)))
    return cut


def test_alternatives_are_verified_where_a_row_costs_little() -> None:
    cheap, dear = turn(priced(0.0002), 1), turn(priced(0.02), 1)
    assert sum(cheap.beside) > 6
    assert sum(dear.beside) == 0


def test_alternatives_that_never_stand_lose_their_rows_and_those_that_do_keep_them() -> None:
    never, always = priced(0.001), priced(0.001)
    for _ in range(300):
        turn(never, kept=2, stood=0, row=0.001)
        turn(always, kept=2, stood=1, row=0.001)
    assert turn(never, 2).beside[2] == 0
    assert turn(always, 2).beside[2] == 1


def test_a_window_with_alternatives_is_no_wider_than_its_stream_may_be() -> None:
    pricing = priced(0.00001)
    pricing.plan([view(1, most=6)])
    pricing.choose(view(1, most=6), 0)
    cut = pricing.trim([Offer(1, 0, 4, (3, 3, 3, 3))])[1]
    assert cut.tokens + sum(cut.beside) == 6


def test_a_width_that_was_timed_on_a_busy_machine_is_tried_again() -> None:
    pricing = priced(0.0002)
    time_rounds(pricing, lambda rows: 0.09 if rows >= 12 else 0.08 + 0.0002 * rows)
    widths = [1 + cut.tokens + sum(cut.beside) for cut in (turn(pricing, kept=2) for _ in range(30 * STALE))]
    assert max(widths[: STALE // 2]) == 11
    assert widths.count(16) > STALE  # those that were tried meanwhile were not slow any more


def test_streams_that_share_a_round_share_its_rows() -> None:
    pricing = priced(0.0002)
    streams = [view(1), view(2)]
    pricing.plan(streams)
    for stream in streams:
        pricing.choose(stream, 0)
    cuts = pricing.trim([Offer(1, 0, 4, (3,) * 4), Offer(2, 0, 4)])
    assert cuts[2].beside == (0,) * cuts[2].tokens
    assert sum(cuts[1].beside) > 0
    rows = 2 + sum(cut.tokens + sum(cut.beside) for cut in cuts.values())
    assert rows <= PLAN.top


def test_a_proposer_that_gave_alternatives_once_is_priced_without_them_again() -> None:
    """Else a drafter that does not pay alone would be taken to pay with what it does not give."""
    drafter = Drafter(step=0.01)
    once, never = Pricing(PLAN, [drafter]), Pricing(PLAN, [drafter])
    for pricing in (once, never):
        time_rounds(pricing, lambda rows: 0.08 + 0.0002 * rows)
    once.plan([view(1)])
    once.choose(view(1), 0)
    once.trim([Offer(1, 0, 4, (3, 3, 3, 3))])
    for pricing in (once, never):
        for _ in range(40):
            pricing.plan([view(1)])
            pricing.choose(view(1), 0)
            pricing.trim([Offer(1, 0, 1)])
            pricing.record_round(RoundSample(2, (2,), 0.08, (Outcome(1, 100, 0, 1, 0, next=NEITHER),)))
    chosen = []
    for pricing in (once, never):
        pricing.plan([view(1)])
        chosen.append((pricing.choose(view(1), 0), pricing._learned.streams.alternatives(1, 0).likely))
    assert chosen[0] == chosen[1]


def test_sampled_streams_learn_of_their_own_alternatives() -> None:
    pricing = priced(0.0002)
    for _ in range(50):
        turn(pricing, kept=1, stood=0)
    sampled = replace(view(2), temperature=0.7)
    pricing.plan([sampled])
    assert pricing._learned.streams.alternatives(2, 0).chances == list(PRIOR)


def test_a_leaf_that_ended_a_reply_says_that_the_draft_did_not_stand() -> None:
    chances = []
    for stood in (0, 1):
        pricing = priced(0.0002)
        for _ in range(200):
            pricing.plan([view(1)])
            pricing.trim([Offer(1, 0, 4, (1,) * 4)])
            outcome = Outcome(1, 100, 0, 4, 1, leaf=bool(stood), next=stood or None)
            pricing.record_round(RoundSample(6, (6,), 0.08, (outcome,)))
        chances.append(
            (
                pricing._learned.streams.drafts(1, 0).acceptance.chances(1)[0],
                pricing._learned.streams.alternatives(1, 0).chances[0],
            )
        )
    (unjudged, prior), (judged, stands) = chances
    assert judged < unjudged
    assert (prior, stands > 0.8) == (PRIOR[0], True)


def gives(pricing: Pricing, stream: int, beside: int) -> None:
    """Offers with so many alternatives a place, until more of them are expected."""
    for _ in range(12):
        pricing.trim([Offer(stream, 0, 2, (beside, beside))])


def test_a_draft_that_pays_with_its_alternatives_alone_is_asked_for() -> None:
    depths = []
    for beside in (0, 3):
        pricing = Pricing(PLAN, [Drafter(step=0.02)])
        time_rounds(pricing, lambda rows: 0.08 + 0.0002 * rows)
        for number in range(140):
            pricing.plan([view(1)])
            pricing.record_draft(DraftSample(0, (Offer(1, 0, 1),), 0, 0.02))
            outcome = Outcome(1, 100, 0, 1, number % 7 == 0, next=NEITHER if number % 7 else None)
            pricing.record_round(RoundSample(2, (2,), 0.08, (outcome,)))
        time_rounds(pricing, lambda rows: 0.08 + 0.0002 * rows)
        pricing.plan([view(1)])
        pricing._learned.streams.drafts(1, 0).aside.tried()  # no trial now
        gives(pricing, 1, beside)
        depths.append(pricing.choose(view(1), 0))
    assert depths == [0, 1]


def test_streams_that_share_a_round_are_asked_for_fewer_drafts_where_alternatives_take_rows() -> None:
    depths = []
    for beside in (0, 3):
        pricing, pair = priced(0.0002), [view(1), view(2)]
        pricing.plan(pair)
        for stream in pair:
            gives(pricing, stream.id, beside)
        depths.append(pricing.choose(pair[0], 0) + pricing.choose(pair[1], 0))
    assert 0 < depths[1] < depths[0]

"""Pricing behind the lanes' protocol: what each call decides and learns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fakes.priced_server import PLAN, Drafter
from tf_host.lanes.depths import FORCED, NEITHER, Cut, DraftSample, Offer, Outcome, RoundSample, StreamView
from tf_host.lanes.fence import Fence
from tf_host.pricing import Pricing
from tf_host.pricing.asking import DEEPER_EVERY
from tf_host.pricing.means import STALE
from tf_plugins.types import Costs

COPY, DRAFTER = 0, 1


def seconds(rows: int) -> float:
    return 0.076 + 0.004 * rows


def view(stream: int = 1, context: int = 100, most: int = 15, left: int = 100, unread: int = 0) -> StreamView:
    return StreamView(stream, context, 90, left, most, 0.0, (0, unread))


def started(copy_kept: int = 9, drafter_kept: int = 3, step: float = 0.01) -> Pricing:
    copies, drafter = Drafter(step=0.0, name="copy"), Drafter(reports=Costs(step=step))
    pricing = Pricing(PLAN, [copies, drafter])
    time_rounds(pricing, seconds)
    for proposer, kept, of in ((COPY, copy_kept, 10), (DRAFTER, drafter_kept, 4)):
        for _ in range(20):
            pricing.plan([view(0)])
            land(pricing, {0: (proposer, of, kept)})
    pricing.forget(0)
    return pricing


def time_rounds(pricing: Pricing, cost: Callable[[int], float]) -> None:
    """Rounds of every width, often enough to count; nothing is judged in them."""
    for _ in range(20):
        for rows in range(1, 17):
            pricing.plan([view(0)])
            land(pricing, {0: (FORCED, rows - 1, 0)}, took=cost(rows))


def land(
    pricing: Pricing,
    outcomes: dict[int, tuple[int | None, int, int]],
    took: float | None = None,
    *,
    queued: bool = False,
    timed: bool = True,
) -> None:
    """A round over: proposer, drafted and kept of each stream."""
    rows = sum(1 + drafted for _, drafted, _ in outcomes.values())
    results = tuple(
        Outcome(stream, 100, proposer, drafted, kept, next=NEITHER if kept < drafted else None)
        for stream, (proposer, drafted, kept) in outcomes.items()
    )
    pricing.record_round(RoundSample(rows, (rows,), (took or seconds(rows)) if timed else None, results, queued))


def draft(pricing: Pricing, proposer: int, offers: dict[int, int], took: float) -> None:
    pricing.record_draft(DraftSample(proposer, tuple(Offer(s, proposer, n) for s, n in offers.items()), 0, took))


def test_a_stream_may_draft_all_that_its_window_holds() -> None:
    assert started().plan([view(1, most=15), view(2, most=3), view(3, most=0)]) == {1: 15, 2: 3, 3: 0}


def test_alone_the_drafter_gets_the_depth_that_pays_and_no_more_than_the_window() -> None:
    pricing = started()
    pricing.plan([view()])
    depth = pricing.choose(view(), DRAFTER)
    assert 3 <= depth <= 8
    pricing.plan([view(most=2)])
    assert pricing.choose(view(most=2), DRAFTER) == 2


def test_the_first_round_of_a_cold_server_times_the_plain_one() -> None:
    pricing = Pricing(PLAN, [Drafter()])
    assert pricing.plan([view()]) == {}
    assert pricing.plan([view(1), view(2)]) == {}
    land(pricing, {1: (None, 0, 0)})
    assert pricing.plan([view()]) == {1: 15}


def test_one_depth_more_is_tried_every_eighth_drafted_round() -> None:
    pricing = started()
    depths = []
    for _ in range(3 * DEEPER_EVERY):
        pricing.plan([view()])
        depths.append(pricing.choose(view(), DRAFTER))  # nothing is judged, so the best stays the best
    deeper = [index + 1 for index, depth in enumerate(depths) if depth == depths[0] + 1]
    assert deeper == [8, 16, 24]
    assert set(depths) == {depths[0], depths[0] + 1}


def test_a_depth_that_would_cost_a_tenth_is_not_tried() -> None:
    pricing = started()
    depths = []
    for _ in range(20 * DEEPER_EVERY):
        pricing.plan([view()])
        depth = pricing.choose(view(), DRAFTER)
        depths.append(depth)
        land(pricing, {1: (DRAFTER, depth, min(2, depth))}, took=0.08 if depth <= 3 else 0.16)
    assert depths[-100:].count(3) >= 96  # the others only when they were not timed for long
    assert set(depths[-100:]) == {0, 3, 4}


def test_the_plain_round_is_timed_again_where_the_margin_is_thin() -> None:
    pricing, depths = started(drafter_kept=1), []
    pricing.plan([view()])
    land(pricing, {1: (None, 0, 0)})
    for _ in range(STALE + 2):
        pricing.plan([view()])
        depth = pricing.choose(view(), DRAFTER)
        depths.append(depth)
        land(pricing, {1: (DRAFTER if depth else None, depth, min(depth, 1))})
    assert depths.index(0) == STALE
    assert depths[STALE + 1] > 0


def test_a_proposer_that_sleeps_is_priced_whatever_it_reports() -> None:
    pricing = started()
    pricing.plan([view()])
    depth = pricing.choose(view(), DRAFTER)
    draft(pricing, DRAFTER, {1: depth}, took=depth * 0.5)
    land(pricing, {1: (DRAFTER, depth, depth)})
    pricing.plan([view()])
    assert pricing.choose(view(), DRAFTER) == 0


def test_copies_give_way_to_a_drafter_that_brings_more() -> None:
    pricing = started(copy_kept=0)
    pricing.plan([view()])
    pricing.choose(view(), DRAFTER)  # it is there for this stream
    trial = pricing.choose(view(), COPY)  # one is tried all the same
    draft(pricing, COPY, {1: trial}, took=1e-5)
    land(pricing, {1: (COPY, trial, 0)})
    pricing.plan([view()])
    assert trial > 0
    assert pricing.choose(view(), COPY) == 0
    assert pricing.choose(view(), DRAFTER) > 0


def test_a_trial_waits_for_a_proposer_that_costs_nothing_to_have_something() -> None:
    pricing = started(copy_kept=0)
    for _ in range(5):
        pricing.plan([view()])
        pricing.choose(view(), DRAFTER)
        assert pricing.choose(view(), COPY) > 0
        draft(pricing, COPY, {1: 0}, took=1e-5)
    draft(pricing, COPY, {1: 2}, took=1e-5)
    pricing.plan([view()])
    assert pricing.choose(view(), COPY) == 0


def test_copies_that_stand_are_asked_first_and_in_full() -> None:
    pricing = started(copy_kept=10)
    pricing.plan([view()])
    assert pricing.choose(view(), COPY) == 15


def test_a_copied_window_that_costs_more_than_it_lands_is_cut_to_what_pays() -> None:
    pricing = started(copy_kept=10)
    time_rounds(pricing, lambda rows: 0.08 if rows <= 8 else 0.8)
    streams = [view(1), view(2)]
    pricing.plan(streams)
    asked = {v.id: pricing.choose(v, COPY) for v in streams}
    draft(pricing, COPY, asked, took=1e-5)
    sent = pricing.trim([Offer(stream, COPY, tokens) for stream, tokens in asked.items()])
    assert sum(asked.values()) > 6
    assert sum(cut.tokens for cut in sent.values()) == 6  # two rows pending, eight in all


def test_what_a_grammar_forces_is_worth_its_rows() -> None:
    pricing = started()
    streams = [view(1), view(2)]
    pricing.plan(streams)
    assert pricing.trim([Offer(1, FORCED, 5)]) == {1: Cut(5, (0,) * 5)}


def test_streams_that_share_a_round_are_priced_together_around_a_copy() -> None:
    def drafted(copied: int) -> int:
        pricing = started(copy_kept=10, step=0.001)
        streams = [view(1, most=13), view(2)]
        pricing.plan(streams)
        asked = {v.id: pricing.choose(v, COPY) for v in streams}
        assert asked[1] >= copied
        draft(pricing, COPY, {1: copied, 2: 0}, took=1e-5)
        return pricing.choose(view(2), DRAFTER)

    assert drafted(copied=2) >= 3
    assert drafted(copied=12) == 2  # no row in a second forward


def test_shared_rounds_feed_no_fit_but_their_own_surcharge() -> None:
    pricing = started()
    before = pricing._learned.prices.alone.by_drafts(1, 15, 256)
    for _ in range(50):
        pricing.plan([view(1), view(2)])
        land(pricing, {1: (None, 0, 0), 2: (None, 0, 0)}, took=0.2)
    assert pricing._learned.prices.alone.by_drafts(1, 15, 256) == before
    pricing.plan([view(1), view(2)])
    assert pricing._turn.seconds(0)[0] == pytest.approx(0.2, rel=0.05)


def test_drafts_compete_with_what_a_queued_plain_round_takes() -> None:
    pricing = started(drafter_kept=1)
    pricing.plan([view()])
    assert pricing.choose(view(), DRAFTER) > 0
    for _ in range(30):
        pricing.plan([view(0)])
        land(pricing, {0: (None, 0, 0)}, took=0.5 * seconds(1), queued=True)
    pricing.plan([view(2)])
    pricing._learned.streams.drafts(2, DRAFTER).aside.tried()  # no trial now
    assert pricing.choose(view(2), DRAFTER) == 0


def test_queued_shared_rounds_have_a_surcharge_of_their_own() -> None:
    pricing, pair = started(), [view(1), view(2)]
    pricing.plan(pair)
    before = pricing._turn.seconds(6)
    for _ in range(30):
        pricing.plan(pair)
        land(pricing, {1: (None, 0, 0), 2: (None, 0, 0)}, took=0.8 * seconds(2), queued=True)
    after = pricing._turn.seconds(6)
    assert after[0] == pytest.approx(0.8 * seconds(2), rel=0.02)
    assert after[1:] == before[1:]
    for _ in range(STALE):
        pricing.plan(pair)
    assert pricing._turn.seconds(6) == before  # too long ago


def test_a_round_that_was_not_timed_is_judged_all_the_same() -> None:
    pricing = started()
    pricing.plan([view()])
    costs, chances = pricing._turn.seconds(6), pricing._learned.streams.drafts(1, DRAFTER).acceptance.chances(3)
    land(pricing, {1: (DRAFTER, 4, 0)}, timed=False)
    assert pricing._turn.seconds(6) == costs
    assert pricing._learned.streams.drafts(1, DRAFTER).acceptance.chances(3) < chances


def test_a_plain_round_is_due_once_whoever_is_asked() -> None:
    """While the one queued behind it runs, drafts are wanted again, or a third would be queued."""
    pricing = started(copy_kept=1, drafter_kept=1)
    for number in range(STALE):
        pricing.plan([view()])
        land(pricing, {1: ((COPY, DRAFTER)[number % 2], 2, 1)})
    asked = []
    for _ in range(4):
        pricing.plan([view()])
        depths = [pricing.choose(view(), proposer) for proposer in (COPY, DRAFTER)]
        asked.append(max(depths) > 0)
    assert asked == [False, True, True, True]
    land(pricing, {1: (None, 0, 0)}, queued=True)
    assert not pricing._learned.prices.stale(1)


@pytest.mark.parametrize("beside", [0, 1])
def test_a_context_is_read_ahead_where_drafts_repay_it(beside: int) -> None:
    pricing = started()
    pricing.record_read(DRAFTER, 1_000, 1.0)
    others = [view(7 + number) for number in range(beside)]
    assert pricing.asks([*others, view(context=90, unread=90)], DRAFTER)
    assert not pricing.asks([*others, view(context=3_000, unread=3_000, left=20)], DRAFTER)
    assert pricing.asks([*others, view(context=3_000, unread=100, left=20)], DRAFTER)  # the rest was kept


def test_asking_about_reading_leaves_the_plain_round_due() -> None:
    pricing = started(copy_kept=1, drafter_kept=1)
    for number in range(STALE):
        pricing.plan([view()])
        land(pricing, {1: ((COPY, DRAFTER)[number % 2], 2, 1)})
    assert pricing.asks([view(2, unread=90)], DRAFTER)
    pricing.plan([view()])
    assert [pricing.choose(view(), proposer) for proposer in (COPY, DRAFTER)] == [0, 0]


def test_asking_about_reading_is_no_round_that_a_stream_stood() -> None:
    pricing = started(drafter_kept=0)
    pricing.record_read(DRAFTER, 1_000, 1.0)
    for _ in range(50):
        assert not pricing.asks([view(2, context=3_000, unread=3_000, left=20)], DRAFTER)
    assert pricing._learned.streams.drafts(2, DRAFTER).aside.plain == 0


def test_nothing_is_read_ahead_before_a_plain_round_was_timed() -> None:
    assert not Pricing(PLAN, [Drafter(step=0.0)]).asks([view()], 0)


def test_a_failing_costs_call_is_no_reason_to_stop() -> None:
    class Broken(Drafter):
        def costs(self) -> Costs:
            raise RuntimeError("no")

    pricing = Pricing(PLAN, [Fence(Broken(step=0.0))])  # type: ignore[arg-type]
    time_rounds(pricing, seconds)
    assert pricing.plan([view()]) == {1: 15}
    assert pricing.choose(view(), 0) > 0


def test_nothing_is_kept_of_a_stream_that_ended() -> None:
    pricing = started()
    for stream in range(5):
        pricing.plan([view(stream)])
        pricing.choose(view(stream), DRAFTER)
        pricing.forget(stream)
    pricing.forget(77)
    assert not pricing._learned.streams._open


def test_a_server_that_timed_plain_rounds_alone_asks_for_more_than_one_draft() -> None:
    """A copy is two tokens at least: asked for one, the proposer would be silent, and no wider round ever timed."""
    pricing = Pricing(PLAN, [Drafter(step=0.0, name="copy")])
    for _ in range(3):
        pricing.plan([view()])
        land(pricing, {1: (None, 0, 0)})
    pricing.plan([view()])
    assert pricing.choose(view(), COPY) >= 2

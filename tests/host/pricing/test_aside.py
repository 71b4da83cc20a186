"""Standing aside."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.priced_server import PLAN, Drafter, Reply, serve
from tf_host.lanes.depths import NEITHER, DraftSample, Offer, Outcome, RoundSample, StreamView
from tf_host.pricing import Pricing
from tf_host.pricing.aside import Aside, Stood


def cost(rows: int, bucket: int) -> float:
    return 0.08 + 0.003 * rows


def gaps(aside: Aside, trials: int) -> list[int]:
    """Plain rounds before each trial."""
    waited = []
    for _ in range(trials):
        plain = 0
        while not aside.due:
            aside.stood()
            plain += 1
        waited.append(plain)
        aside.tried()
    return waited


def test_it_tries_at_once_and_then_the_wait_doubles_up_to_1024() -> None:
    assert gaps(Aside(), 8) == [0, 64, 128, 256, 512, 1_024, 1_024, 1_024]


def test_drafts_that_pay_start_it_over() -> None:
    aside = Aside()
    assert gaps(aside, 4) == [0, 64, 128, 256]
    aside.pays()
    assert gaps(aside, 2) == [64, 128]


def test_a_trial_that_pays_is_followed_by_another() -> None:
    aside = Aside()
    aside.tried()
    assert not aside.due
    aside.paid()
    assert aside.due
    assert gaps(aside, 3) == [0, 64, 128]  # no longer wait than before


def test_what_streams_of_a_kind_stood_is_saved_up_together() -> None:
    kind = Stood()
    for _ in range(3):
        aside = Aside(kind)
        for _ in range(50):
            aside.stood()
    assert Aside(kind).rounds == aside.rounds == 150
    Aside(kind).tried()
    assert aside.rounds == 50  # its own
    first, second = Aside(kind), Aside(kind)
    first.stood()
    first.take()
    assert (first.rounds, second.rounds) == (1, 0)  # one of them spends it
    shared = Aside(Stood())
    shared.stood(streams=4)
    assert shared.plain == 1
    assert Aside(shared._kind).rounds == 0.25


def test_a_trial_is_its_proposer_s_own() -> None:
    """Copies that stand aside are asked for as a trial; what the drafter offers in their place is weighed as ever."""
    copies, drafter = Drafter(step=0.0, name="copy"), Drafter()
    pricing = started_with_copies_aside(copies, drafter)
    view = StreamView(1, 200, 90, 200, 15, 0.0, (0, 0))
    pricing.plan([view])
    assert 0 < pricing.choose(view, 0) <= 3
    assert (1, 0) in pricing._turn.trials
    pricing.record_draft(DraftSample(0, (Offer(1, 0, 0),), 0, 1e-6))
    asked = pricing.choose(view, 1)
    offer = Offer(1, 1, asked, beside=(3,) * asked)
    pricing.record_draft(DraftSample(1, (offer,), 0, 0.001))
    assert pricing.trim([offer])


def started_with_copies_aside(copies: Drafter, drafter: Drafter) -> Pricing:
    """Rounds of every width timed, and copies that never landed beside drafts that mostly did."""
    pricing = Pricing(PLAN, [copies, drafter])
    view = StreamView(0, 100, 90, 200, 15, 0.0, (0, 0))
    for rows in (*range(1, 17), *range(1, 17)):
        pricing.plan([view])
        pricing.record_round(RoundSample(rows, (rows,), cost(rows, 0), (Outcome(0, 100, None, 0, 0),)))
    for proposer, kept, following in [(0, 0, NEITHER), (1, 4, NEITHER)] * 300:
        pricing.plan([view])
        pricing.record_round(RoundSample(6, (6,), cost(6, 0), (Outcome(0, 100, proposer, 5, kept, next=following),)))
    pricing.forget(0)
    return pricing


def test_a_stream_whose_drafts_never_land_is_drafted_for_on_that_schedule() -> None:
    plan = replace(PLAN, edges=(8_192,))  # no round is plain for want of room before a bucket's edge
    pricing = Pricing(plan, [Drafter()])
    # A request before it, so that the drafter is known to be hopeless.
    serve(pricing, [Reply([False] * 60)], cost, Drafter(), plan=plan, first_id=-1)
    result = serve(pricing, [Reply([False] * 3_300)], cost, Drafter(), plan=plan)
    drafted = [index for index, depth in enumerate(result.depths) if depth]
    waited = [after - before - 1 for before, after in zip([-1, *drafted], drafted, strict=False)]
    assert waited == [0, 64, 128, 256, 512, 1_024, 1_024]
    assert all(0 < result.depths[index] <= 3 for index in drafted)

"""What a proposer's probabilities come to."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.fakes.priced_server import PLAN, Drafter, Reply, serve
from tests.host.pricing.test_pricing import time_rounds, view
from tf_host.lanes.depths import FORCED, NEITHER, Cut, DraftSample, Offer, Outcome, RoundSample
from tf_host.pricing import Pricing
from tf_host.pricing.calibration import Calibration
from tf_host.start.rehearsal import Rehearsal


def learned(says: float, stands: float, beside: tuple[float, ...] = (), count: int = 2_000) -> Calibration:
    """Of drafts that stand so often, whatever else is said; where one does not, its first alternative does."""
    known, rng = Calibration(), random.Random(1)
    for _ in range(count):
        own = 0 if rng.random() < stands else (1 if beside else NEITHER)
        known.offered([[says, *beside]])
        known.judge([[says, *beside]], kept=int(own == 0), next=None if own == 0 else own)
    return known


def test_a_proposer_is_believed_at_first() -> None:
    assert Calibration().chances([[0.7, 0.2, 0.1], [0.01]]) == [[0.7, 0.2, 0.1], [0.01]]
    assert Calibration().said(0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("says", "stands"), [(0.9, 0.5), (0.1, 0.6), (0.5, 0.5)])
def test_chances_come_to_what_happens(says: float, stands: float) -> None:
    [[chance]] = learned(says, stands).chances([[says]])
    assert chance == pytest.approx(stands, abs=0.1)


def test_probabilities_that_are_far_from_those_judged_are_still_believed() -> None:
    assert learned(0.9, 0.1).chances([[0.3]]) == [[0.3]]


def test_alternatives_are_counted_apart_and_where_the_draft_stood_too() -> None:
    known = learned(0.6, 0.6, beside=(0.2, 0.2))
    [[draft, first, second]] = known.chances([[0.6, 0.2, 0.2]])
    assert draft == pytest.approx(0.6, abs=0.1)
    assert first == second == pytest.approx(0.2, abs=0.06)  # 0.4 and 0: one bin
    assert known.chances([[0.2]]) == [[0.2]]


def test_a_later_alternative_has_no_better_chance() -> None:
    assert Calibration().chances([[0.3, 0.1, 0.4]]) == [[0.3, 0.1, 0.1]]


def test_what_was_not_compared_is_not_counted() -> None:
    known, same = Calibration(), Calibration()
    offered = [[0.5], [0.5], [0.5]]
    known.judge(offered, kept=1, next=None)
    same.judge(offered[:1], kept=1, next=None)
    assert known.chances([[0.5]]) == same.chances([[0.5]]) != Calibration().chances([[0.5]])


def test_a_draft_that_was_cut_off_and_would_have_stood_counts() -> None:
    right, wrong = Calibration(), Calibration()
    right.judge([[0.5], [0.5]], kept=0, next=0)
    wrong.judge([[0.5], [0.5]], kept=0, next=NEITHER)
    assert right.chances([[0.5]])[0][0] > 0.5 > wrong.chances([[0.5]])[0][0]


@pytest.mark.parametrize(("says", "stands"), [(0.95, 0.6), (0.3, 0.7)])
def test_a_chance_is_put_as_the_proposer_would(says: float, stands: float) -> None:
    """Two such drafts stand by the chance ``stands ** 2``, and it says ``says ** 2``."""
    assert learned(says, stands).said(stands**2) == pytest.approx(says**2, rel=0.25)


def test_certainty_and_impossibility_can_be_said() -> None:
    for says in (0.0, 1.0):
        known = learned(says, 0.5, count=50)
        assert 0 < known.said(0.3) <= 1
        assert 0 < known.chances([[says]])[0][0] < 1


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_the_first_offers_and_those_of_a_round_now_and_then_are_not_gone_by(streams: int) -> None:
    """However many streams a round has: their offers come first, then they are cut, then judged."""
    known, trusted = Calibration(), []
    for _ in range(400):
        for _ in range(streams):
            known.offered([[0.5]])
        trusted.append(known.trusted)
        for _ in range(streams):
            known.judge([[0.5]], 0, NEITHER)
    first = 16 // streams
    assert not any(trusted[:first])
    looks = [at for at, gone_by in enumerate(trusted) if not gone_by and at > first]
    assert len(looks) == pytest.approx(streams * 400 / 64, abs=2)
    assert max(later - before for before, later in pairwise(looks)) <= 64 // streams + 1


def ready(step: float = 0.003, row: float = 0.003) -> Pricing:
    """A stream alone with a drafter, past its first offers."""
    pricing = Pricing(PLAN, [Drafter(step=step)])
    time_rounds(pricing, lambda rows: 0.05 + row * rows)
    for _ in range(20):
        offered(pricing, [0.5, 0.5, 0.5], step)
    return pricing


def offered(pricing: Pricing, says: list[float], step: float = 0.003, kept: int = 1) -> Cut | None:
    """What of a draft is verified."""
    pricing.plan([view(1)])
    pricing.choose(view(1), 0)
    offer = Offer(1, 0, len(says), probabilities=tuple((each,) for each in says))
    pricing.record_draft(DraftSample(0, (offer,), 0, step * len(says)))
    cut = pricing.trim([offer]).get(1)
    verified = cut.tokens if cut else len(says)
    own = None if kept >= len(says) else NEITHER
    outcome = Outcome(1, 100, 0, verified, min(kept, verified), next=0 if kept > verified else own)
    pricing.record_round(RoundSample(1 + verified, (1 + verified,), 0.05 + 0.003 * (1 + verified), (outcome,)))
    return cut


def test_rows_go_to_what_is_likely() -> None:
    cuts = [offered(ready(), says) for says in ([0.95, 0.9, 0.9, 0.9], [0.9, 0.02, 0.9, 0.9], [0.01, 0.9, 0.9, 0.9])]
    assert [cut and cut.tokens for cut in cuts] == [4, 1, 0]


def test_a_step_that_costs_more_has_to_be_likelier_to_pay() -> None:
    leasts = []
    for step in (0.0005, 0.003, 0.02):
        pricing = ready(step)
        pricing.plan([view(1)])
        pricing.choose(view(1), 0)
        leasts.append(pricing.least(view(1), 0))
    assert 0 < leasts[0] < leasts[1] < leasts[2] < 1


def test_where_alternatives_take_the_rows_a_draft_may_be_less_likely() -> None:
    leasts = []
    for beside in (0, 3):
        pricing = ready()
        for _ in range(12):
            pricing.trim([Offer(1, 0, 2, (beside, beside))])
        pricing.plan([view(1)])
        pricing.choose(view(1), 0)
        leasts.append(pricing.least(view(1), 0))
    assert leasts[1] < leasts[0]


def test_a_stream_without_room_is_told_nothing() -> None:
    pricing, full = ready(), replace(view(1), most=0)
    pricing.plan([full])
    assert pricing.least(full, 0) == 0
    assert Calibration().said(0.0) == 0


def test_who_gives_no_probabilities_is_told_nothing() -> None:
    pricing = Pricing(PLAN, [Drafter(step=0.003)])
    time_rounds(pricing, lambda rows: 0.05 + 0.003 * rows)
    leasts = []
    for probabilities in ((), ((0.5,),), ()):
        pricing.plan([view(1)])
        pricing.choose(view(1), 0)
        leasts.append(pricing.least(view(1), 0))
        pricing.record_draft(DraftSample(0, (Offer(1, 0, 1, probabilities=probabilities),), 0, 0.003))
    assert (leasts[:2], leasts[2] > 0.05) == ([0.0, 0.0], True)


def test_streams_that_are_asked_together_share_a_step() -> None:
    """The round lands twice as much a second, and a row costs so much more of that; a step is for both."""
    leasts = []
    for streams in ([view(1)], [view(1), view(2)]):
        pricing = ready(step=0.02, row=0.0)
        pricing.plan(streams)
        for each in streams:
            pricing.choose(each, 0)
        pricing._turn.rates.clear()
        leasts.append(pricing._asking.least(pricing._turn, view(1), 0))
    assert leasts[0] < leasts[1] < 1.6 * leasts[0]


def test_a_draft_that_an_end_cut_short_says_nothing_of_its_price() -> None:
    pricing = ready()
    before = pricing._learned.chains[0].chain(1)
    for ended in (True, False):
        pricing.plan([view(1)])
        pricing.choose(view(1), 0)
        pricing.record_draft(DraftSample(0, (Offer(1, 0, 1, probabilities=((0.5,),), ended=ended),), 0, 0.02))
        assert (pricing._learned.chains[0].chain(1) == before) == ended


def test_only_the_proposer_whose_draft_it_was_is_judged() -> None:
    """A copy for one stream, a drafter's draft for the next, and what a grammar forces for the last."""
    pricing = Pricing(PLAN, [Drafter(name="copy"), Drafter()])
    time_rounds(pricing, lambda rows: 0.05)
    streams = [view(1), view(2), view(3)]
    pricing.plan(streams)
    for each in streams:
        pricing.choose(each, 0)
    copied, drafted = Offer(1, 0, 2, probabilities=((0.5,), (0.5,))), Offer(2, 1, 1, probabilities=((0.3,),))
    nothing = Offer(2, 0, 0)
    pricing.record_draft(DraftSample(0, (copied, nothing), 0, 0.001))
    pricing.record_draft(DraftSample(1, (drafted,), 0, 0.001))
    pricing.trim([copied, drafted, Offer(3, FORCED, 2)])
    outcomes = (
        Outcome(1, 100, 0, 2, 2),
        Outcome(2, 100, 1, 1, 0, next=NEITHER),
        Outcome(3, 100, FORCED, 2, 0, next=NEITHER),
    )
    pricing.record_round(RoundSample(8, (8,), 0.05, outcomes))
    [copies, drafts] = [
        pricing._learned.streams.calibration(1, proposer).chances([[0.5], [0.3]]) for proposer in (0, 1)
    ]
    assert copies[0][0] > 0.5
    assert copies[1] == [0.3]
    assert drafts[0] == [0.5]
    assert drafts[1][0] < 0.3
    assert set(pricing._learned.streams._calibrations) == {(0, False), (1, False)}


def test_a_rehearsal_teaches_what_probabilities_come_to() -> None:
    """It verifies all that is offered, and so never asks what pays."""
    drafter = Drafter(step=0.003)
    pricing = Pricing(PLAN, [drafter])
    reply = Reply([True] * 96, prompt=120, sure=[[0.5] * 15] * 96)
    serve(Rehearsal(pricing, seconds=60.0), [reply], lambda rows, bucket: 0.05, drafter, first_id=-1)
    assert (
        Calibration().chances([[0.5]])[0][0] < pricing._learned.streams._calibrations[0, False].chances([[0.5]])[0][0]
    )


def test_sampled_streams_have_their_own() -> None:
    pricing = ready()
    sampled = replace(view(2), temperature=0.7)
    pricing.plan([sampled])
    assert pricing._learned.streams.calibration(2, 0).chances([[0.5]]) == [[0.5]]


def test_a_draft_that_is_cut_off_whole_teaches_what_it_was_worth() -> None:
    """A drafter that doubts itself too much is verified again once its drafts turn out right."""
    pricing = ready()
    cuts = [offered(pricing, [0.04], kept=1) for _ in range(60)]
    assert [cut and cut.tokens for cut in (cuts[0], cuts[-1])] == [0, 1]


def test_steps_that_were_made_are_priced_and_not_those_asked_for() -> None:
    pricing = Pricing(PLAN, [Drafter()])
    time_rounds(pricing, lambda rows: 0.05)
    for probabilities in ((), ((0.5,),)):
        pricing.plan([view(1)])
        pricing.choose(view(1), 0)
        offer = Offer(1, 0, 1, probabilities=probabilities)
        pricing._turn.asked[0] = {1: 4}
        pricing.record_draft(DraftSample(0, (offer,), 0, 0.004 if not probabilities else 0.001))
    assert pricing._learned.chains[0].chain(1) == pytest.approx(0.001, rel=0.01)
    assert pricing._learned.chains[0].chain(4) == pytest.approx(0.004, rel=0.01)

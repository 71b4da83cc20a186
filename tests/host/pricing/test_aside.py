"""Standing aside."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.priced_server import PLAN, Drafter, Reply, serve
from tf_host.pricing import Pricing
from tf_host.pricing.aside import Aside


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


def test_the_wait_doubles_up_to_1024() -> None:
    assert gaps(Aside(), 7) == [64, 128, 256, 512, 1_024, 1_024, 1_024]


def test_drafts_that_pay_start_it_over() -> None:
    aside = Aside()
    assert gaps(aside, 3) == [64, 128, 256]
    aside.pays()
    assert gaps(aside, 2) == [64, 128]


def test_a_stream_whose_drafts_never_land_is_drafted_for_on_that_schedule() -> None:
    plan = replace(PLAN, edges=(8_192,))  # no round is plain for want of room before a bucket's edge
    pricing = Pricing(plan, [Drafter()])
    pricing.seed_rounds([(rows, bucket, 0.08 + 0.003 * rows) for rows in (1, 2, 4, 8, 16) for bucket in (256, 2_048)])
    pricing.seed_acceptance(0, [(3, 0)] * 40)
    result = serve(pricing, [Reply([False] * 3_300)], lambda rows, bucket: 0.08 + 0.003 * rows, Drafter(), plan=plan)
    drafted = [index for index, depth in enumerate(result.depths) if depth]
    waited = [after - before - 1 for before, after in zip([-1, *drafted], drafted, strict=False)]
    assert waited == [65, 128, 256, 512, 1_024, 1_024]  # and the round that times the plain one of a cold server
    assert all(0 < result.depths[index] <= 3 for index in drafted)

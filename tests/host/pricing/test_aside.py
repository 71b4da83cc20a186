"""Standing aside."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.priced_server import PLAN, Drafter, Reply, serve
from tf_host.pricing import Pricing
from tf_host.pricing.aside import Aside


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

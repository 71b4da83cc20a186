"""A server's rounds, simulated: what pricing costs where drafts don't pay, and what it reaches where they do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.priced_server import PLAN, Drafter, Reply, Result, serve
from tf_host.lanes.fixed_depths import FixedDepths, NoDrafts
from tf_host.pricing import Pricing
from tf_host.start.rehearsal import Rehearsal
from tf_plugins.rows import RowPlan
from tf_plugins.types import Costs

GPU = RowPlan.for_device("gpu", 8_192, widths=tuple(range(2, 17)), tile=16)


def cpu(rows: int, bucket: int) -> float:
    """Seconds of a round as a small model on a CPU has them: a step where the kernels change, keys that cost."""
    return 0.050 + (0.003 * rows if rows <= 4 else 0.008 + 0.003 * rows) + 1.2e-5 * bucket


def gpu(rows: int, bucket: int) -> float:
    """Seconds of a round as a large model on a GPU has them: nearly flat."""
    return 0.024 + 0.00018 * rows


def replies(acceptance: float, count: int = 24, tokens: int = 160, seed: int = 5) -> list[Reply]:
    rng = random.Random(seed)
    return [Reply([rng.random() < acceptance for _ in range(rng.randint(tokens // 2, tokens))]) for _ in range(count)]


def started(plan: RowPlan, cost: Callable[[int, int], float], drafter: Drafter, acceptance: float = 0.7) -> Pricing:
    """A server after its start: the rehearsal's rounds were timed and its drafts judged."""
    pricing, rng = Pricing(plan, [drafter]), random.Random(2)
    rehearsed = Reply([rng.random() < acceptance for _ in range(96)], prompt=120)
    serve(Rehearsal(pricing, seconds=60.0), [rehearsed], cost, drafter, plan=plan, noise=0.03, first_id=-1)
    return pricing


def fixed(wanted: list[Reply], cost: Callable[[int, int], float], drafter: Drafter, **more: Any) -> list[Result]:
    """The same replies at fixed depths, 0 first."""
    return [serve(FixedDepths(depth), wanted, cost, drafter, **more) for depth in (0, 1, 2, 3, 4, 5, 6, 8, 11, 15)]


def best(wanted: list[Reply], cost: Callable[[int, int], float], drafter: Drafter, **more: Any) -> float:
    return max(result.rate for result in fixed(wanted, cost, drafter, **more))


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("rehearsed", [0.05, 0.9], ids=["seen when rehearsed", "flattered when rehearsed"])
def test_a_bad_drafter_costs_less_than_three_in_a_hundred(parallel: int, rehearsed: float) -> None:
    wanted, drafter = replies(0.05), Drafter(step=0.01)
    plain = serve(NoDrafts(), wanted, cpu, drafter, parallel=parallel)
    priced = serve(started(PLAN, cpu, drafter, rehearsed), wanted, cpu, drafter, parallel=parallel, noise=0.05)
    assert priced.rate > 0.97 * plain.rate
    assert priced.drafted > 0  # it goes on being tried


@pytest.mark.parametrize("parallel", [1, 8])
def test_streams_that_are_due_at_once_do_not_all_spend_what_they_saved_up_together(parallel: int) -> None:
    """Short replies whose drafts never land, each with a prompt to read before the first."""
    drafter = Drafter(step=0.01, read=0.002, reports=Costs(step=0.01, read=0.002))
    wanted = [Reply([False] * 40, prompt=1_000) for _ in range(600)]
    plain = serve(NoDrafts(), wanted, cpu, drafter, parallel=parallel)
    priced = serve(started(PLAN, cpu, drafter, 0.05), wanted, cpu, drafter, parallel=parallel)
    assert priced.rate > 0.98 * plain.rate
    assert priced.drafted > 0


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("reports", [Costs(), Costs(step=0.001)], ids=["silent", "understates"])
@pytest.mark.parametrize("step", [0.08, 0.5])
def test_a_slow_drafter_costs_less_than_three_in_a_hundred(parallel: int, reports: Costs, step: float) -> None:
    wanted, drafter = replies(0.7), Drafter(step=step, reports=reports)
    plain = serve(NoDrafts(), wanted, cpu, drafter, parallel=parallel)
    priced = serve(started(PLAN, cpu, drafter), wanted, cpu, drafter, parallel=parallel, noise=0.05)
    assert priced.rate > 0.97 * plain.rate


def test_a_proposer_that_takes_its_time_to_say_nothing_costs_less_than_three_in_a_hundred() -> None:
    wanted, drafter = replies(0.7), Drafter(step=0.02, answers=0.0)
    plain = serve(NoDrafts(), wanted, cpu, drafter)
    priced = serve(started(PLAN, cpu, drafter), wanted, cpu, drafter, noise=0.05)
    assert priced.rate > 0.97 * plain.rate


@pytest.mark.parametrize(("acceptance", "parallel"), [(0.5, 1), (0.7, 1), (0.95, 1), (0.5, 2), (0.8, 2), (0.7, 4)])
@pytest.mark.parametrize(("plan", "cost", "step"), [(PLAN, cpu, 0.01), (GPU, gpu, 0.001), (GPU, gpu, 0.007)])
def test_a_good_drafter_reaches_the_best_fixed_depth(
    acceptance: float, parallel: int, plan: RowPlan, cost: Callable[[int, int], float], step: float
) -> None:
    wanted, drafter = replies(acceptance), Drafter(step=step, reports=Costs(step=step))
    priced = serve(started(plan, cost, drafter), wanted, cost, drafter, parallel=parallel, plan=plan, noise=0.05)
    assert priced.rate > 0.95 * best(wanted, cost, drafter, parallel=parallel, plan=plan)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize(("plan", "cost", "step"), [(PLAN, cpu, 0.01), (GPU, gpu, 0.001), (GPU, gpu, 0.007)])
def test_on_the_demo_pair_s_own_replies_it_reaches_the_best_fixed_depth(
    temperature: float, parallel: int, plan: RowPlan, cost: Callable[[int, int], float], step: float
) -> None:
    """``agreement.jsonl``: whether each token of the demo target's replies is the one that its drafter gives."""
    lines = (Path(__file__).parent / "agreement.jsonl").read_text().splitlines()
    wanted = [
        Reply([bit == "1" for bit in record["agrees"]], record["prompt_tokens"], temperature, limit=160)
        for record in map(json.loads, lines)
        if record["temperature"] == temperature
    ]
    assert len(wanted) == 24
    drafter = Drafter(step=step, reports=Costs(step=step))
    depths = fixed(wanted, cost, drafter, parallel=parallel, plan=plan)
    priced = serve(started(plan, cost, drafter), wanted, cost, drafter, parallel=parallel, plan=plan, noise=0.05)
    assert priced.rate > 0.95 * max(result.rate for result in depths)
    assert priced.rate > depths[0].rate


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("spell", [0, 30], ids=["rehearsed badly", "a spell of bad text"])
@pytest.mark.parametrize(
    ("plan", "cost", "step", "read", "prompt"),
    [(GPU, gpu, 0.002, 25e-6, 2_000), (PLAN, cpu, 0.025, 8e-5, 1_000)],
)
def test_what_drafted_badly_once_is_tried_again_though_every_prompt_has_to_be_read_first(
    plan: RowPlan, cost: Callable[[int, int], float], step: float, read: float, prompt: int, spell: int, parallel: int
) -> None:
    """No single reply is long enough to save up for a trial."""
    drafter = Drafter(step=step, read=read, reports=Costs(step=step, read=read))
    good = [replace(reply, prompt=prompt) for reply in replies(0.85, count=120, tokens=120)]
    priced = started(plan, cost, drafter, acceptance=0.9 if spell else 0.05)
    serve(priced, replies(0.1, count=spell, tokens=200, seed=7), cost, drafter, plan=plan, noise=0.03, first_id=1_000)
    found = serve(priced, good, cost, drafter, plan=plan, parallel=parallel, noise=0.03)
    assert found.rate > 0.85 * best(good, cost, drafter, plan=plan, parallel=parallel)


def test_without_a_rehearsal_it_finds_its_way() -> None:
    wanted, drafter = replies(0.8), Drafter(step=0.01)
    assert serve(Pricing(PLAN, [drafter]), wanted, cpu, drafter, noise=0.05).rate > 0.95 * best(wanted, cpu, drafter)


@pytest.mark.parametrize("acceptance", [0.02, 0.5, 0.9])
def test_the_first_request_of_a_cold_server_is_not_slower_than_plain(acceptance: float) -> None:
    first = replies(acceptance, count=1, tokens=160)
    for step in (0.01, 0.1):
        drafter = Drafter(step=step, reports=Costs(step=step))
        plain = serve(NoDrafts(), first, cpu, drafter)
        priced = serve(started(PLAN, cpu, drafter, acceptance), first, cpu, drafter, noise=0.03)
        assert priced.rate > 0.98 * plain.rate


def test_a_long_prompt_with_a_short_reply_is_left_unread() -> None:
    def longer(limit: int) -> list[Reply]:
        return [Reply([True] * limit, prompt=3_000, limit=limit) for _ in range(6)]

    drafter = Drafter(step=0.01, read=0.001, reports=Costs(step=0.01, read=0.001))
    assert serve(started(PLAN, cpu, drafter), longer(20), cpu, drafter).drafted == 0
    assert serve(started(PLAN, cpu, drafter), longer(400), cpu, drafter).drafted > 1_000


def test_a_machine_that_was_busy_for_a_while_is_drafted_on_again() -> None:
    wanted, drafter = replies(0.8, count=40), Drafter(step=0.01)
    pricing = started(PLAN, cpu, drafter)
    serve(pricing, wanted[:8], cpu, drafter, noise=0.05)

    def busy(rows: int, bucket: int) -> float:
        return cpu(rows, bucket) * (1 + rows / 4)

    serve(pricing, wanted[8:16], busy, drafter, noise=0.05, first_id=100)
    after = serve(pricing, wanted[16:], cpu, drafter, noise=0.05, first_id=200)
    assert after.rate > 0.95 * best(wanted[16:], cpu, drafter)


@pytest.mark.parametrize("acceptance", [0.5, 0.6, 0.7])
def test_a_machine_that_was_busy_for_one_reply_drafts_the_next_ones(acceptance: float) -> None:
    """All took three times as long then, and nothing but plain rounds shows that it does not any more."""

    def demo(rows: int, bucket: int) -> float:
        return 0.0455 + 0.0024 * (rows - 1) + 1e-5 * bucket

    wanted, drafter, slow = replies(acceptance, count=9, tokens=120), Drafter(step=0.0033), Drafter(step=0.0099)
    pricing = started(PLAN, demo, drafter)
    serve(pricing, wanted[:1], lambda rows, bucket: 3 * demo(rows, bucket), slow, first_id=100)
    after = serve(pricing, wanted[1:], demo, drafter, first_id=200)
    assert after.rate > 0.8 * best(wanted[1:], demo, drafter)


SAYS: dict[str, Callable[[float], float]] = {
    "what it finds": lambda found: found,
    "too much": lambda found: found**0.2,
    "too little": lambda found: found**3,
    "always one": lambda found: 1.0,
    "always a half": lambda found: 0.5,
    "next to nothing": lambda found: 0.01,
}
"""What a drafter says of a draft, by what the demo drafter's own softmax says of it."""


def unsure(temperature: float, says: Callable[[float], float] | None) -> list[Reply]:
    """``sure.jsonl``: the demo drafter's chains of ten from every token of replies, in percent; twice each."""
    lines = map(json.loads, (Path(__file__).parent / "sure.jsonl").read_text().splitlines())
    return 2 * [
        Reply(
            [bit == "1" for bit in line["agrees"]],
            temperature=temperature,
            limit=160,
            sure=[[says(percent / 100) for percent in chain] for chain in line["percent"]] if says else (),
        )
        for line in lines
        if line["temperature"] == temperature
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("parallel", [1, 2, 4])
@pytest.mark.parametrize(("plan", "cost", "step"), [(PLAN, cpu, 0.003), (GPU, gpu, 0.001), (GPU, gpu, 0.003)])
def test_probabilities_save_steps_and_rows(
    temperature: float, parallel: int, plan: RowPlan, cost: Callable[[int, int], float], step: float
) -> None:
    drafter = Drafter(step=step, batch=0.1 * step, reports=Costs(step=step, batch=0.1 * step))
    with_them, without = (
        serve(
            started(plan, cost, drafter),
            unsure(temperature, says),
            cost,
            drafter,
            parallel=parallel,
            plan=plan,
            noise=0.05,
        )
        for says in (SAYS["what it finds"], None)
    )
    assert with_them.kept / with_them.drafted > 1.1 * without.kept / without.drafted
    assert with_them.rate > (1.01 if parallel == 1 and not temperature else 0.98) * without.rate


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("parallel", [1, 2])
def test_wrong_probabilities_cost_little(says: str, temperature: float, parallel: int) -> None:
    drafter = Drafter(step=0.003)
    said, blind = (
        serve(started(PLAN, cpu, drafter), unsure(temperature, how), cpu, drafter, parallel=parallel, noise=0.05)
        for how in (SAYS[says], None)
    )
    assert said.rate > 0.95 * blind.rate


def test_probabilities_of_a_bad_drafter_cost_less_than_three_in_a_hundred() -> None:
    """It is sure of what never stands."""
    wanted = [Reply(reply.agrees, sure=[[0.9] * 10] * len(reply.agrees)) for reply in replies(0.05)]
    drafter = Drafter(step=0.01)
    plain = serve(NoDrafts(), wanted, cpu, drafter)
    assert serve(started(PLAN, cpu, drafter), wanted, cpu, drafter, noise=0.05).rate > 0.97 * plain.rate

"""Windows: what is sent when, what is compared, and what a cell comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, FakeServer, Script, serving
from tf_host.bench.client import Client
from tf_host.bench.prompts import Prompt
from tf_host.bench.reply import Reply
from tf_host.bench.report import cell_record, window_record
from tf_host.bench.summary import CellSummary, percentile, summarise
from tf_host.bench.windows import Cell, Plan, Use, Window, _order, run

PROMPTS = tuple(Prompt(f"p{i}", "chat", text=f"{i}: {{n}}") for i in range(4))


@pytest.fixture
def servers() -> Iterator[tuple[FakeServer, FakeServer]]:
    with ExitStack() as stack:
        yield stack.enter_context(serving(FakeServer())), stack.enter_context(serving(FakeServer()))


def bench(plan: Plan, *servers: FakeServer) -> list[tuple[Window, ...]]:
    async def everything() -> list[tuple[Window, ...]]:
        clients = [Client(server.url, label=f"s{i}", model="fake", timeout=10.0) for i, server in enumerate(servers)]
        try:
            return [windows async for windows in run(plan, clients)]
        finally:
            for client in clients:
                await client.close()

    return asyncio.run(everything())


def by_prompt(replies: dict[str, Script], otherwise: Script | None = None) -> Answer:
    def answer(body: dict[str, Any]) -> Script:
        return replies.get(body["prompt"].split(":")[0], otherwise or Script())

    return answer


def test_window_k_is_prompt_k_alone_then_k_and_the_next_together() -> None:
    plan = Plan(PROMPTS, levels=(1, 2), temperatures=(0.0, 0.7), reps=2)
    used = [[use.prompt.id for use in plan.uses(step)] for step in range(len(plan.steps))]
    assert used[:4] == [["p0"], ["p0", "p1"], ["p0"], ["p0", "p1"]]
    assert used[12:14] == [["p3"], ["p3", "p0"]]
    assert len(used) == 2 * 4 * 4


def test_no_text_is_ever_sent_twice_and_seeds_are_fixed() -> None:
    plan = Plan(PROMPTS, levels=(1, 2, 3), temperatures=(0.0, 0.7), reps=3)
    uses = [use for step in range(len(plan.steps)) for use in plan.uses(step)]
    assert len({use.prompt.body(use.number)["prompt"] for use in uses}) == len(uses)
    assert [use.seed for use in uses] == [use.seed for step in range(len(plan.steps)) for use in plan.uses(step)]
    assert len({use.seed for use in uses}) == len(uses)


def test_the_streams_of_a_window_run_at_once_and_windows_one_after_another(
    servers: tuple[FakeServer, FakeServer],
) -> None:
    server = servers[0]
    server.answer = lambda body: Script(ids=[1] * 5, step=0.02)
    bench(Plan(PROMPTS, levels=(3,), windows=2), server)
    assert server.most_at_once == 3


def test_rates_of_one_stream_and_of_two(servers: tuple[FakeServer, FakeServer]) -> None:
    server = servers[0]
    server.answer = lambda body: Script(ids=[1] * 11, step=0.02, wait=0.3)
    [[one], [two]] = bench(Plan(PROMPTS, windows=1), server)
    # Sleeps only ever take longer, and the wait before the first token counts for two streams alone.
    assert 0.4 * 10 / 0.2 < (one.rate or 0) < 1.5 * 10 / 0.2
    assert 0.4 * 22 / 0.5 < (two.rate or 0) < 1.5 * 22 / 0.5
    assert two.rate == pytest.approx(22 / two.seconds)
    assert one.replies[0].seconds > 0.5  # the whole request, beside it


def test_streams_start_apart_where_that_is_asked_for(servers: tuple[FakeServer, FakeServer]) -> None:
    [[window]] = bench(Plan(PROMPTS, levels=(2,), windows=1, stagger=0.2), servers[0])
    first, second = (reply.started for reply in window.replies)
    assert second - first == pytest.approx(0.2, abs=0.1)


def test_alone_and_serial_compare_each_reply_with_itself_again(servers: tuple[FakeServer, FakeServer]) -> None:
    server = servers[0]

    seen: list[bool] = []

    def by_turn(body: dict[str, Any]) -> Script:
        seen.append("draft" in body)
        return Script(ids=[1, 2] if body["prompt"][0] == "1" and len(seen) > 2 and "draft" not in body else [1, 2, 3])

    server.answer = by_turn
    [[window]] = bench(Plan(PROMPTS, levels=(2,), windows=1, alone=True, serial=True), server)
    assert window.alone == [True, False]
    assert window.serial == [True, True]
    assert [body.get("draft") for body in server.bodies] == [None, None, None, False, None, False]
    assert len({body["prompt"] for body in server.bodies}) == 2  # the very same requests again
    [cell] = summarise([(window,)])
    assert (cell.alone, cell.serial, cell.passed) == ([1, 2], [2, 2], False)


@pytest.mark.parametrize("bad", [Script(cut=1), Script(finish=None), Script(status=500), Script(counted=9)])
def test_what_fails_both_times_alike_is_not_equal(servers: tuple[FakeServer, FakeServer], bad: Script) -> None:
    for server in servers:
        server.answer = by_prompt({"1": bad})
    steps = bench(Plan(PROMPTS, levels=(2,), windows=1, alone=True, serial=True), *servers)
    [[window, other]] = steps
    assert window.alone == [True, False]
    assert window.serial == [True, False]
    assert window.same(other) == [True, False]
    assert window.rate is None
    cell = summarise(steps)[0]
    assert (cell.failed, cell.rates, cell.ratios, cell.passed) == (1, [], [], False)
    assert cell.same == [1, 2]


def test_each_server_takes_each_place_in_every_cell(servers: tuple[FakeServer, FakeServer]) -> None:
    """With two temperatures, whoever alternated by the step would go first at one of them and last at the other."""
    first: list[tuple[float, int]] = []
    for index, server in enumerate(servers):

        def answer(body: dict[str, Any], index: int = index) -> Script:
            first.append((body["temperature"], index))
            return Script(ids=[1])

        server.answer = answer
    bench(Plan(PROMPTS, levels=(1,), temperatures=(0.0, 0.7)), *servers)
    for temperature in (0.0, 0.7):
        leads = [index for at, index in first if at == temperature][::2]
        assert leads.count(0) == leads.count(1) == len(PROMPTS) / 2
    assert all(sorted(_order(turn, 3)) == [0, 1, 2] for turn in range(6))
    assert all(sorted(_order(turn, 3)[place] for turn in range(6)) == [0, 0, 1, 1, 2, 2] for place in range(3))


def test_two_servers_take_turns_and_are_paired(servers: tuple[FakeServer, FakeServer]) -> None:
    order: list[int] = []
    for index, (server, step) in enumerate(zip(servers, (0.01, 0.08), strict=True)):

        def answer(body: dict[str, Any], index: int = index, step: float = step) -> Script:
            order.append(index)
            return Script(ids=[1] * 6, step=step)

        server.answer = answer
    steps = bench(Plan(PROMPTS, levels=(1,)), *servers)
    assert order == [0, 1, 1, 0, 1, 0, 0, 1]
    assert [body["prompt"] for body in servers[0].bodies] == [body["prompt"] for body in servers[1].bodies]
    first, second = summarise(steps)
    assert (first.label, second.label) == ("s0", "s1")
    assert len(first.ratios) == 4
    assert all(ratio > 1.5 for ratio in first.ratios)
    assert first.behind == 0
    assert first.same == [4, 4]
    assert second.ratios == []


def test_a_server_against_itself_is_even(servers: tuple[FakeServer, FakeServer]) -> None:
    servers[0].answer = lambda body: Script(ids=[1] * 11, step=0.01)
    [cell, other] = summarise(bench(Plan(PROMPTS, levels=(1,), reps=2), servers[0], servers[0]))
    assert cell.same == [8, 8]
    assert percentile(cell.ratios, 0.5) == pytest.approx(1.0, abs=0.5)
    assert other.rate == pytest.approx(cell.rate, rel=0.5)


def made(rate: float, *, label: str = "a", whole: bool = True, seconds: float = 2.0, ids: int = 11) -> Window:
    reply = Reply(0.0, 1.0, 1.0 + (ids - 1) / rate, seconds, "x", list(range(ids)), 1, "stop" if whole else None, ids)
    reply.tf = {"rounds": 5, "sources": {"copy": {"drafted": 4, "accepted": 3}}}
    return Window(label, 0, 0, Cell(0.0, 1), (Use(PROMPTS[0], 1),), [reply], seconds)


def test_a_cell_s_numbers() -> None:
    steps = [(made(rate), made(other, label="b", seconds=3.0)) for rate, other in ((10, 8), (20, 25), (40, 20))]
    cell, other = summarise(steps)
    assert (cell.rate, cell.wall, cell.tokens_a_round) == pytest.approx((20, 2.0, 2.2))
    assert cell.ratios == pytest.approx([1.25, 0.8, 2.0])
    assert cell.behind == 1
    assert cell.time_ratios == [1.5, 1.5, 1.5]
    assert (cell.drafted, cell.kept) == ({"copy": 12}, {"copy": 9})
    record = cell_record(cell)
    assert (record["ratio"], record["behind"], record["wall_ratio"]) == (1.25, 1, 1.5)
    assert record["sources"] == {"copy": {"drafted": 12, "kept": 9}}
    assert "ratio" not in cell_record(other)


def test_a_pair_with_a_failed_window_has_no_ratio() -> None:
    cell, other = summarise([(made(10), made(10, label="b", whole=False)), (made(10), made(5, label="b"))])
    assert cell.ratios == [2.0]
    assert cell.same == [1, 2]
    assert (cell.failed, other.failed) == (0, 1)


def test_percentiles() -> None:
    assert [percentile([3, 1, 2], share) for share in (0, 0.25, 0.5, 1)] == [1, 1.5, 2, 3]
    assert percentile([7], 0.05) == 7


def test_a_window_s_record_names_what_went_wrong() -> None:
    record = window_record(made(10, whole=False))
    assert record["tokens_per_s"] is None
    assert record["requests"][0]["problem"].startswith("cut off")
    assert window_record(made(10))["requests"][0]["rounds"] == 5
    assert CellSummary("a", Cell(0.0, 1)).rate is None

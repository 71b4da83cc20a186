"""A proposer that lies to the ledger loses drafts or kept bytes; no request fails for it, and none waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import CONTEXT, FakeModel
from tests.fakes.proposers import FakeProposer, always
from tf_host.lanes.fence import Fence
from tf_llama.budget.admission import StreamAdmission
from tf_plugins.types import Growth


def exits(*_: object) -> Any:
    raise SystemExit(3)


def growing(growth: Growth) -> Callable[..., Growth]:
    return lambda context, tokens: growth if context else Growth(tokens)


LIES: dict[str, dict[str, Callable[..., Any]]] = {
    "growth: ": {"growth": growing(Growth(10**15))},
    "growth: TypeError": {"growth": lambda context, tokens: None if context else Growth(tokens)},
    "growth: SystemExit": {"growth": lambda context, tokens: exits() if context else Growth(tokens)},
    "growth: ValueError: 1000000": {"growth": growing(Growth(1, 10**6, 10**6))},
    "growth: ValueError: 1": {"growth": lambda context, tokens: Growth(tokens if tokens == CONTEXT else 10**15)},
    "shed: ": {"kept": lambda: 10**15},
    "shed: TypeError": {"kept": lambda: 10**15, "shed": lambda room: None},
    "shed: SystemExit": {"kept": lambda: 10**15, "shed": exits},
    "kept: SystemExit": {"kept": exits},
    "kept: ValueError": {"kept": lambda: -1},
}
"""Methods that answer so, by how the failure is remembered."""


@pytest.mark.parametrize("last", LIES)
def test_no_request_pays_for_a_lie(last: str) -> None:
    model, proposer = FakeModel(), FakeProposer(always(1), "liar")
    fence = Fence(proposer)
    fence.begin(CONTEXT, room=10**6)
    bytes_for = lambda tokens: model.cache_bytes(tokens) + fence.fresh(tokens)  # noqa: E731
    states = make_lanes()._states
    budget = bytes_for(CONTEXT)
    admission = StreamAdmission(budget, 2, bytes_for, {"liar": fence}, states)
    for method, answer in LIES[last].items():
        setattr(proposer, method, answer)
    lanes = make_lanes(model, admission=admission, proposers=[fence], depth=4)
    wanted = [request([k, 2], CONTEXT - 9) for k in range(3)]
    sinks = decode(lanes, *wanted)
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in wanted]
    assert fence.failures.last.startswith(last)
    assert lanes.snapshot().last_error is None


@pytest.mark.parametrize(
    ("growth", "opened", "failed"), [(3 * CONTEXT, ([], [1]), "greedy"), (2 * CONTEXT - 1, ([1], []), "honest")]
)
def test_proposers_share_the_room_that_a_stream_leaves(
    growth: int, opened: tuple[list[int], list[int]], failed: str
) -> None:
    model, greedy, honest = FakeModel(), FakeProposer(always(1), "greedy"), FakeProposer(always(2), "honest")
    bytes_for = lambda tokens: model.cache_bytes(tokens) + 2 * tokens  # noqa: E731
    greedy.growth = lambda context, tokens: Growth(growth)  # type: ignore[method-assign]
    honest.growth = lambda context, tokens: Growth(tokens)  # type: ignore[method-assign]
    admission = StreamAdmission(bytes_for(CONTEXT), 2, bytes_for, {}, make_lanes()._states)
    lanes = make_lanes(model, admission=admission, proposers=[greedy, honest], depth=4)
    wanted = request([3, 2], CONTEXT - 2)
    [sink] = decode(lanes, wanted)
    assert sink.tokens == naive(wanted)[0]
    assert (greedy.opened, honest.opened) == opened
    assert lanes.snapshot().failures.keys() == {failed}

"""A round's Python costs the same at any context, and reads back once."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest

from tests.fakes.lanes import CountAdmission, make_lanes, request, run
from tests.fakes.model import PLAN, FakeModel
from tests.fakes.proposers import FakeProposer
from tests.fakes.reading import Sink
from tf_host.requests import Sampling
from tf_plugins.rows import RowPlan
from tf_plugins.tokens import Tokens
from tf_plugins.types import DraftRequest, Window

EVERYTHING = Sampling(
    seed=3, temperature=0.8, top_k=9, top_p=0.9, repetition=1.2, presence=0.1, frequency=0.1, logit_bias={1: 1.0}
)


class Flat(FakeModel):
    """Rows of a constant, so that the model's own work is the same at any context."""

    def verify(self, windows: Sequence[Window]) -> mx.array:
        rows = sum(len(window.tokens) for window in windows)
        return mx.zeros((rows, self.padded))

    def prefill(self, cache: Any, tokens: Sequence[int]) -> None:
        cache.length += len(tokens)


def long_plan() -> RowPlan:
    return RowPlan.for_device("gpu", 65_536, widths=tuple(range(1, 17)))


def measured(prompt: int) -> tuple[Counter[str], int]:
    """Python and C calls of one round, and the most memory that it took, behind ``prompt`` tokens."""

    def answer(asked: DraftRequest) -> list[int]:
        # What a proposer may do with the view at no cost: its length, and its tail.
        return [0] * min(4, len(asked.context[-3:]) + 1)

    lanes = make_lanes(Flat(long_plan()), proposers=[FakeProposer(answer)], depth=4)
    for _ in range(2):
        lanes.submit(request([k % 7 for k in range(prompt)], 300, EVERYTHING, logprobs=2), Sink())
    while lanes.snapshot().decoding < 2:
        lanes.step()
    for _ in range(3):
        lanes.step()
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, arg: Any) -> None:
        calls[event] += event in ("call", "c_call")

    tracemalloc.start()
    lanes.step()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    lanes.step()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    sys.setprofile(count)
    lanes.step()
    sys.setprofile(None)
    return calls, peak


def test_a_round_costs_the_same_at_any_context() -> None:
    short, long = measured(2_049), measured(40_001)
    # The same bucket position modulo the chunk grid, so the same windows.
    assert abs(short[0]["call"] - long[0]["call"]) <= 20
    assert abs(short[0]["c_call"] - long[0]["c_call"]) <= 20
    # A copy of the longer context alone would take 320 KB.
    assert abs(short[1] - long[1]) < 16_384


def test_a_round_reads_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = make_lanes(admission=CountAdmission(4), proposers=[FakeProposer(lambda asked: [1, 2])], depth=2)
    for k in range(4):
        lanes.submit(request([k], 20, Sampling(seed=k, temperature=0.7, top_p=0.9), logprobs=1), Sink())
    lanes.step()
    evaluated = []
    evaluate = mx.eval
    monkeypatch.setattr(mx, "eval", lambda *arrays: (evaluated.append(len(arrays)), evaluate(*arrays))[1])
    rounds = lanes.snapshot().rounds
    run(lanes)
    assert len(evaluated) == lanes.snapshot().rounds - rounds


def test_tokens_are_a_view() -> None:
    tokens = [5, 6, 7]
    view = Tokens(tokens)
    tokens.append(8)
    assert (len(view), view[-1], view[1:3], list(view), 6 in view, view.index(7)) == (4, 8, [6, 7], tokens, True, 2)
    with pytest.raises(TypeError):
        view[0] = 1  # type: ignore[index]
    with pytest.raises(IndexError):
        view[4]


def test_memory_is_flat_over_a_thousand_rounds() -> None:
    lanes = make_lanes(proposers=[FakeProposer(lambda asked: [1, 2])], depth=2)

    def rounds(count: int) -> int:
        done = lanes.snapshot().rounds
        while lanes.snapshot().rounds < done + count:
            lanes.submit(request([1, 2], PLAN.context - 2, EVERYTHING), Sink())
            run(lanes)
        gc.collect()  # when cycles are freed is Python's to choose
        return mx.get_active_memory()

    baseline = rounds(200)
    # MLX counts what malloc gives, some bytes more or less for the same arrays; a row kept a round would be 256,000.
    assert rounds(1_000) <= baseline + 1_000

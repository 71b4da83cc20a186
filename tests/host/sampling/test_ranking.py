"""The highest values in one order, whatever sorts them."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_host.sampling.order import Ranking

FLOATS = st.floats(width=32, allow_nan=False, allow_subnormal=False) | st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf]
)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(FLOATS, min_size=1, max_size=40), count=st.integers(1, 40))
def test_higher_first_and_equal_by_the_lower_id(values: list[float], count: int) -> None:
    count = min(count, len(values))
    row = mx.array(values, dtype=mx.float32)
    best, ids = Ranking(len(values)).highest(row, count)
    order = sorted(range(len(values)), key=lambda i: (-np.float32(values[i]), i))[:count]
    assert ids.tolist() == order
    assert best.tolist() == [float(np.float32(values[i])) for i in order]


def test_a_bfloat16_row_ties_by_the_lower_id() -> None:
    row = mx.array(np.random.default_rng(1).normal(size=20_000).astype(np.float32)).astype(mx.bfloat16)
    values = np.array(row.astype(mx.float32))
    _, ids = Ranking(20_000).highest(row.astype(mx.float32), 500)
    assert ids.tolist() == np.lexsort((np.arange(20_000), -values))[:500].tolist()
    assert len(set(values[np.array(ids)])) < 400  # there were ties to break


@pytest.mark.exact
def test_a_partial_ranking_is_the_head_of_the_whole() -> None:
    row = mx.array(np.random.default_rng(2).integers(0, 50, size=5_000).astype(np.float32))
    ranking = Ranking(5_000)
    whole = ranking.highest(row, 5_000)[1].tolist()
    for count in (1, 10, 999, 4_999):
        assert ranking.highest(row, count)[1].tolist() == whole[:count]

"""Windows into forwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_host.lanes.packing import pack


@given(rows=st.lists(st.integers(1, 16), max_size=12), top=st.integers(16, 32))
def test_every_window_is_whole_in_one_forward_of_at_most_the_top(rows: list[int], top: int) -> None:
    forwards = pack(rows, top)
    assert sorted(index for forward in forwards for index in forward) == list(range(len(rows)))
    assert all(0 < sum(rows[index] for index in forward) <= top for forward in forwards)
    # No two forwards could have been one.
    totals = [sum(rows[index] for index in forward) for forward in forwards]
    assert all(a + b > top for i, a in enumerate(totals) for b in totals[i + 1 :])


def test_a_window_goes_where_there_is_room() -> None:
    assert pack([9, 9, 7, 7], 16) == [[0, 2], [1, 3]]
    assert pack([], 16) == []


@pytest.mark.parametrize("rows", [0, 9])
def test_a_window_that_fits_no_forward_is_an_error(rows: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        pack([1, rows], 8)

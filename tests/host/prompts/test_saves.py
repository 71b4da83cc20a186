"""Where states are kept while a prompt is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_host.prompts.saves import GAP, choose


@pytest.mark.parametrize(
    ("boundaries", "last", "chosen"),
    [
        # No messages known: the last chunk start only.
        ((), 999, (960,)),
        # One user message behind a system prefix, and the reply that begins: two positions, not four.
        ((400, 996), 999, (960, 384)),
        # The same where the template does not mark the reply.
        ((400,), 999, (960, 384)),
        # A boundary at a chunk start is before its message.
        ((384, 996), 999, (960, 384)),
        # Long chats: the last, before the last user message, and in the system prefix; others are left out.
        ((130, 300, 500, 700, 996), 999, (960, 640, 128)),
        # A short last message: both are kept, however near.
        ((130, 950, 996), 999, (960, 896, 128)),
        # A system prefix too near to the others is not worth its own.
        ((130, 300, 996), 999, (960, 256)),
        # A chunk that starts within the mark of the reply is no use to an edit.
        ((130, 700, 959), 999, (960, 896, 640, 128)),
        # A system prefix within the first chunk has no chunk start.
        ((60, 700, 996), 999, (960, 640)),
        # The last prompt token is never held.
        ((), 64, (64,)),
        ((), 63, ()),
        ((63,), 64, (64,)),
        ((), 0, ()),
    ],
)
def test_the_chunk_starts_that_are_kept(boundaries: tuple[int, ...], last: int, chosen: tuple[int, ...]) -> None:
    assert choose(range(0, last + 1, 64), boundaries, last) == chosen


@given(
    starts=st.lists(st.integers(0, 5_000), max_size=60, unique=True).map(sorted),
    boundaries=st.lists(st.integers(0, 5_000), max_size=5, unique=True).map(sorted),
    last=st.integers(0, 5_000),
)
def test_chosen_positions_are_chunk_starts_within_the_prompt(
    starts: list[int], boundaries: list[int], last: int
) -> None:
    chosen = choose(starts, boundaries, last)
    assert len(set(chosen)) == len(chosen) <= 4
    assert all(position in starts and 0 < position <= last for position in chosen)
    if chosen:
        assert chosen[0] == max(start for start in starts if start <= last)
    for boundary in boundaries[-2:]:
        before = [start for start in starts if 0 < start <= min(boundary, last)]
        assert not before or before[-1] in chosen
    if len(chosen) == 4:
        assert min(chosen[:3]) - chosen[3] >= GAP

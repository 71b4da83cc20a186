"""The plan's arithmetic: buckets, capacities and prompt chunks follow from positions alone."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tf_plugins.rows import RowPlan, bucket_edges

CPU = RowPlan.for_device("cpu", 8_192, widths=tuple(range(1, 17)))
GPU = RowPlan.for_device("gpu", 262_144, widths=tuple(range(2, 17)), tile=16, markers=frozenset({7}))


@pytest.mark.parametrize("switch", [1_024, 4_096, 8_192, 16_384, 32_768, 65_536])
def test_every_known_kernel_switch_is_a_bucket_edge(switch):
    assert switch in bucket_edges(262_144)


@given(st.integers(0, 262_143))
def test_a_bucket_holds_its_position_and_a_window_is_cut_at_its_edge(position):
    assert position < GPU.bucket(position)
    room = GPU.room(position)
    assert GPU.bucket(position + room - 1) == GPU.bucket(position)
    if position + room < 262_144:
        assert GPU.bucket(position + room) > GPU.bucket(position)


@given(st.integers(1, 262_144))
@example(65_537)
def test_a_cache_holds_its_tokens_and_a_tile_and_every_view_of_them(tokens):
    assert GPU.capacity(tokens) >= max(tokens + 16, GPU.bucket(tokens - 1))


def test_rows_are_padded_to_the_band():
    plan = CPU.with_band((4, 8, 16), 1)
    assert [plan.padded(n) for n in (1, 4, 5, 9, 16)] == [4, 4, 8, 16, 16]
    with pytest.raises(ValueError, match="17 rows"):
        plan.padded(17)


@given(st.lists(st.integers(6, 8), min_size=1, max_size=6_000), st.lists(st.integers(6, 8), max_size=50))
def test_whether_a_position_starts_a_chunk_depends_on_the_tokens_up_to_it(tokens, more):
    starts = list(GPU.chunk_starts(tokens))
    assert [s for s in GPU.chunk_starts(tokens + more) if s < len(tokens)] == starts


@given(st.integers(1, 700), st.data())
def test_chunks_cover_the_prompt_but_its_last_token_from_any_chunk_start(length, data):
    tokens = [1] * length
    start = data.draw(st.sampled_from(sorted({s for s in CPU.chunk_starts(tokens) if s < length - 1} | {0})))
    covered = [p for begin, end in CPU.chunks(tokens, start) for p in range(begin, end)]
    assert covered == list(range(start, length - 1))


def test_a_marker_starts_a_chunk_only_past_the_gap():
    tokens = [1] * 1_000
    tokens[100] = tokens[300] = tokens[500] = tokens[900] = 7
    assert list(GPU.chunk_starts(tokens)) == [0, 300, 900]
    assert [GPU.chunk_padded(n) for n in (1, 17, 200, 300)] == [16, 64, 256, 2_048]

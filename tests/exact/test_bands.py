"""Bands: widths that agree, and the rule that picks one."""

from hypothesis import given
from hypothesis import strategies as st

from tf_host.exact import WIDTHS, agreeing, choose, intersect


def same(*groups: range | tuple[int, ...]) -> dict[int, list[bytes]]:
    """Digests of widths that agree within each group, equal in both arrangements."""
    return {w: [bytes([i]), bytes([i])] for i, group in enumerate(groups) for w in group}


def test_all_widths_agree_on_a_stock_cpu():
    assert agreeing(same(WIDTHS)) == [WIDTHS]


def test_a_width_whose_slots_differ_is_in_no_band():
    digests = same(range(1, 9))
    digests[5] = [b"x", b"y"]
    assert agreeing(digests) == [(1, 2, 3, 4, 6, 7, 8)]


def test_a_band_of_the_model_is_the_intersection_over_its_operations():
    one = agreeing(same((1,), (2, 3), range(4, 17)))
    other = agreeing(same((1,), range(2, 16), (16,)))
    assert intersect([one, other]) == [(1,), (2, 3), tuple(range(4, 16)), (16,)]


def test_the_bands_measured_with_plain_mkl_give_4_to_15_on_a_cpu():
    bands = [(1,), (2, 3), tuple(range(4, 16)), (16, 24, 32)]
    assert choose(bands, "cpu") == tuple(range(4, 16))


def test_a_cpu_takes_the_smallest_minimum_then_the_widest():
    assert choose([(1, 2, 8), (3, 9, 32)], "cpu") == (1, 2, 8)


def test_a_gpu_takes_the_widest_reach_up_to_16_then_the_smallest_minimum():
    assert choose([(1,), tuple(range(2, 16))], "gpu") == tuple(range(2, 16))
    assert choose([(1, 2, 3, 8), (4, 16), (5, 24, 32)], "gpu") == (16,)
    assert choose([tuple(range(2, 12)), (12, 13, 14)], "gpu") == (12, 13, 14)


def test_a_gpu_pads_to_multiples_of_16_and_keeps_the_top():
    assert choose([(1,), (*range(2, 9),), (*range(9, 17), 24, 32)], "gpu") == (16, 32)
    assert choose([(1,), (*range(2, 17), 24), (32,)], "gpu") == (16, 24)
    assert choose([(1,), (*range(2, 16), 24)], "gpu") == (24,)


def test_a_gpu_pads_nothing_where_one_row_has_the_bits_of_many():
    assert choose([tuple(range(1, 17)), (24, 32)], "gpu") == tuple(range(1, 17))


@given(st.lists(st.lists(st.sampled_from(WIDTHS), min_size=1).map(lambda band: tuple(sorted(set(band))))))
def test_a_gpu_uses_some_widths_of_one_band_with_its_top(bands):
    chosen = choose(bands, "gpu")
    assert chosen is None or any(set(chosen) <= set(band) and chosen[-1] == band[-1] for band in bands)


def test_where_only_equal_widths_agree_one_fixed_width_is_chosen():
    bands = [(w,) for w in WIDTHS]
    assert choose(bands, "cpu") == (8,)
    assert choose(bands, "gpu") == (16,)


def test_no_band_reaches_a_window_of_8():
    assert choose([(1, 2), (3, 4, 7)], "cpu") is None


@given(st.lists(st.dictionaries(st.sampled_from(WIDTHS), st.integers(0, 3), min_size=1), min_size=1, max_size=4))
def test_widths_share_a_band_exactly_where_every_operation_agrees(operations):
    digests = [{w: [bytes([d])] * 2 for w, d in op.items()} for op in operations]
    bands = intersect([agreeing(d) for d in digests])
    measured = [w for w in WIDTHS if all(w in op for op in operations)]
    for a in measured:
        for b in measured:
            together = any(a in band and b in band for band in bands)
            assert together == all(op[a] == op[b] for op in operations)

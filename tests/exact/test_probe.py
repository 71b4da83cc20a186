"""The probe: what it finds decides the plan, and every kind of fault is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from tests.fakes.model import FakeModel
from tf_host.exact import WIDTHS, probe, replay
from tf_plugins.rows import RowPlan
from tf_plugins.types import TileCheck, WidthCheck

BASE = RowPlan.for_device("cpu", 1_024)
SAMPLE = [i * 7 % 50 for i in range(300)]


def quiet(doing: str, done: float) -> None:
    pass


def linear(*groups: Iterable[int], slots: int | None = None) -> WidthCheck:
    """An operation whose widths agree within each group; width ``slots`` depends on a row's slot."""

    def digest(width: int, shuffled: bool) -> bytes:
        number = next(i for i, group in enumerate(groups) if width in group)
        return bytes([number, 1 if shuffled and width == slots else 0])

    return WidthCheck("linear 4->9", 1_000_000, digest)


def attention(passes: Callable[[int, Sequence[int]], bool]) -> TileCheck:
    """Attention whose rows agree where ``passes(tile, rungs)``."""

    def variants(tile: int, rungs: Sequence[int]) -> Iterable[tuple[str, bytes]]:
        yield "row 3: alone", b"same"
        yield "row 3: slot 1", b"same" if passes(tile, rungs) else b"other"
        yield "row 9: alone", b"another row may differ"

    return TileCheck("attention", variants)


class Probed(FakeModel):
    """The fake model with operations to measure."""

    def __init__(self, *checks: WidthCheck | TileCheck, faults: Iterable[str] = (), leaves: bool = False) -> None:
        super().__init__(BASE.with_band((1,), 1), faults, leaves=leaves)
        self._checks = checks

    def checks(self) -> Sequence[WidthCheck | TileCheck]:
        return self._checks


def run(model: FakeModel, kind: str = "cpu"):
    return probe(model, BASE, kind, "key", SAMPLE, quiet)


def test_where_all_widths_agree_all_are_used_at_the_smallest_tile_of_a_cpu():
    verdict = run(model := Probed(linear(WIDTHS), attention(lambda tile, rungs: True)))
    assert verdict.exact, verdict.failure
    assert (verdict.widths, verdict.tile, verdict.rungs) == (WIDTHS, 1, BASE.rungs)
    assert model.plan == verdict.plan(BASE)


def test_the_band_is_what_agrees_in_every_operation():
    one, other = linear((1,), (2, 3), range(4, 33)), linear((1,), range(2, 16), range(16, 33))
    verdict = run(Probed(one, other, attention(lambda tile, rungs: True)))
    assert verdict.widths == tuple(range(4, 16))
    assert [row.agree for row in verdict.table[:3]] == [
        "{1} {2,3} {4..16,24,32}",
        "{1} {2..15} {16,24,32}",
        "{1} {2,3} {4..15} {16,24,32}",
    ]


def test_a_width_that_depends_on_slots_is_left_out():
    verdict = run(Probed(linear(WIDTHS, slots=6), attention(lambda tile, rungs: True)))
    assert verdict.widths == tuple(w for w in WIDTHS if w != 6)


def test_a_gpu_takes_the_largest_tile_that_passes():
    verdict = run(Probed(linear((1,), WIDTHS[1:]), attention(lambda tile, rungs: tile <= 8)), "gpu")
    assert (verdict.widths, verdict.tile) == ((16, 32), 8)


def test_the_replay_reaches_the_second_width_of_a_gpu():
    seen: list[int] = []
    model = Probed(linear([1], WIDTHS[1:]), attention(lambda tile, rungs: True))
    model.on_verify = lambda windows: seen.append(sum(len(window.tokens) for window in windows))
    assert run(model, "gpu").widths == (16, 32)
    assert max(seen) > 16


def test_cache_lengths_that_differ_are_merged_into_the_longest():
    verdict = run(Probed(linear(WIDTHS), attention(lambda tile, rungs: len(rungs) == 1)))
    assert verdict.exact, verdict.failure
    assert verdict.rungs == BASE.rungs[-1:]


def test_no_band_and_no_tile_are_named():
    singles = linear(*([width] for width in WIDTHS))
    assert run(Probed(singles, attention(lambda tile, rungs: True))).widths == (8,)
    none = run(Probed(linear(WIDTHS), attention(lambda tile, rungs: False)))
    assert (none.exact, none.failure) == (False, "attention")
    assert len(none.widths) == 1


@pytest.mark.parametrize("fault", ["width", "slot", "neighbour", "stale"])
def test_a_fault_of_the_whole_model_is_found_by_the_replay(fault: str):
    verdict = run(Probed(linear(WIDTHS), attention(lambda tile, rungs: True), faults=(fault,)))
    assert not verdict.exact
    assert verdict.failure.startswith("whole model, position ")


@pytest.mark.parametrize("fault", ["leaf", "left"])
def test_a_fault_of_leaves_is_found_by_the_replay(fault: str):
    faulty = Probed(linear(WIDTHS), attention(lambda tile, rungs: True), faults=(fault,), leaves=True)
    verdict = run(faulty)
    assert not verdict.exact
    assert (", a leaf," in verdict.failure) == (fault == "leaf")
    whole = Probed(linear(WIDTHS), attention(lambda tile, rungs: True), leaves=True)
    assert run(whole).exact
    assert whole.leaves_kept > 5


@pytest.mark.parametrize("top", [2, 3, 8])
def test_leaves_fit_narrow_bands(top: int):
    model = FakeModel(BASE.with_band(tuple(range(1, top + 1)), 1), leaves=True)
    assert replay(model, model.plan, SAMPLE) is None


def test_the_replay_crosses_a_bucket_edge_and_finds_nothing_in_an_exact_model():
    model = FakeModel(BASE.with_band(tuple(range(1, 17)), 1))
    seen: list[int] = []
    model.on_verify = lambda windows: seen.append(windows[0].cache.length)
    assert replay(model, model.plan, SAMPLE) is None
    assert min(seen) < 256 < max(seen)
    assert not model.caches or all(cache.length for cache in model.caches)

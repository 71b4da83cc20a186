"""The CUDA kernels compute what float32 does, and give a row the same bits whatever shares the call.

They run on a CUDA device alone; ``tests/llama/test_cuda_plan.py`` covers the arithmetic around them everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import mlx.core as mx
import pytest

from tests.cuda import ON_CUDA
from tests.llama.leaves import leaf_rows
from tests.llama.tiny import checkpoint, ids, load, read
from tf_llama.rows.cuda.form import CudaForm
from tf_llama.rows.cuda.kernels import Kernels
from tf_llama.rows.cuda.plan import ROWS
from tf_llama.rows.cuda.processor import Processor, processor
from tf_plugins.types import Device, Window

pytestmark = pytest.mark.skipif(not ON_CUDA, reason="there is no CUDA device here")

CUDA = Device("gpu", "cuda", "the first CUDA device", compiled=True)
NEAR = 0.004
"""Of the difference's norm: what rounding to bfloat16 costs."""


def random(*shape: int, seed: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(mx.bfloat16)


def off(found: mx.array, wanted: mx.array) -> float:
    wide = wanted.astype(mx.float32)
    return float((mx.linalg.norm(found.astype(mx.float32) - wide) / mx.linalg.norm(wide)).item())


def same(some: mx.array, others: mx.array) -> bool:
    kind = mx.uint16 if some.dtype == mx.bfloat16 else mx.uint32
    return bool(mx.array_equal(some.view(kind), others.view(kind)).item())


def device() -> Processor:
    found = processor()
    assert found is not None
    return found


def kernels(heads: int = 8, kv_heads: int = 2, size: int = 64) -> Kernels:
    return Kernels(device(), heads, kv_heads, size, 1e-5)


def widths_agree(compute: Callable[[mx.array], mx.array], rows: mx.array) -> bool:
    whole = compute(rows)
    return all(
        same(compute(rows[begin : begin + width]), whole[begin : begin + width])
        for width in range(1, ROWS)
        for begin in (0, ROWS - width)
    )


SHAPES = [(960, 576), (1_000, 576), (49_152, 576), (10_240, 5_120), (5_120, 8_192), (512, 28_672), (64, 32)]


@pytest.mark.parametrize(("outputs", "depth"), SHAPES)
def test_a_product_is_right_and_does_not_know_its_neighbours(outputs: int, depth: int) -> None:
    rows, weight = random(ROWS, depth, seed=1), random(outputs, depth, seed=2) * 0.05
    compute = kernels()
    wanted = rows.astype(mx.float32) @ weight.astype(mx.float32).T
    scale = mx.random.uniform(0.5, 2, (ROWS,), key=mx.random.key(3))
    assert off(compute.linear(rows, scale, weight), wanted * scale[:, None]) < NEAR
    assert off(compute.parts(rows, weight).sum(axis=0), wanted) < NEAR / 100
    assert widths_agree(lambda some: compute.linear(some, mx.ones(some.shape[0]), weight), rows)
    assert widths_agree(lambda some: compute.parts(some, weight).swapaxes(0, 1), rows)


def test_the_control_mlx_own_product_knows_its_neighbours() -> None:
    rows, weight = random(ROWS, 5_120, seed=1), random(10_240, 5_120, seed=2)
    assert not widths_agree(lambda some: some @ weight.T, rows)


@pytest.mark.parametrize(("width", "depth"), [(1_536, 576), (25_600, 5_120), (8, 64)])
def test_a_gated_product(width: int, depth: int) -> None:
    rows, weight = random(ROWS, depth, seed=3), random(2 * width, depth, seed=4) * 0.05
    both = rows.astype(mx.float32) @ weight.astype(mx.float32).T
    gate, up = mx.split(both, 2, axis=-1)
    compute = kernels()
    assert off(compute.gated(rows, mx.ones(ROWS), weight), gate * mx.sigmoid(gate) * up) < NEAR
    assert widths_agree(lambda some: compute.gated(some, mx.ones(some.shape[0]), weight), rows)


@pytest.mark.parametrize("width", [64, 576, 5_120, 16_384])
@pytest.mark.parametrize("slices", [1, 5])
def test_a_sum_and_its_norm(width: int, slices: int) -> None:
    rows, weight = random(ROWS, width, seed=5), random(width, seed=6)
    parts = mx.random.normal((slices, ROWS, width), key=mx.random.key(7))
    compute = kernels()
    summed, (normed, scale) = compute.add_and_norm(rows, parts, weight)
    wanted = rows.astype(mx.float32) + parts.sum(axis=0)
    assert off(summed, wanted) < NEAR
    wanted = mx.fast.rms_norm(summed.astype(mx.float32), weight.astype(mx.float32), 1e-5)
    assert off(normed * scale[:, None], wanted) < NEAR
    alone, (its, by) = compute.add_and_norm(rows[3:4], parts[:, 3:4], weight)
    assert same(alone, summed[3:4])
    assert same(its, normed[3:4])
    assert same(by, scale[3:4])
    again, factor = compute.norm(summed, weight)
    assert same(again, normed)
    assert same(factor, scale)


def attended(queries: mx.array, cache: mx.array, places: list[int]) -> mx.array:
    """In float32, a row at a time."""
    heads, size = queries.shape[1:]
    kv = cache.shape[0] // 2
    outputs = []
    for row, place in enumerate(places):
        grouped = queries[row].astype(mx.float32).reshape(kv, heads // kv, size)
        seen = cache[:, : place + 1].astype(mx.float32)
        weights = mx.softmax(grouped @ seen[:kv].swapaxes(-1, -2) / math.sqrt(size), axis=-1)
        outputs.append((weights @ seen[kv:]).reshape(heads * size))
    return mx.stack(outputs)


PLACES = (0, 15, 63, 64, 300, 511, 512, 1_300, 2_047, 2_048, 5_000)


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 64), (32, 8, 128), (64, 8, 128), (8, 8, 64)])
def test_attention_is_right_and_a_row_knows_its_position_alone(heads: int, kv_heads: int, size: int) -> None:
    compute = kernels(heads, kv_heads, size)
    cache = random(2 * kv_heads, 5_300, size, seed=8)
    queries = random(ROWS, heads, size, seed=9)
    for last in PLACES:
        places = [max(0, last - ROWS + 1 + at) for at in range(ROWS)]
        keys = last + 1
        whole = compute.attend(queries, cache, mx.array(places, mx.int32), keys)
        assert off(whole, attended(queries, cache, places)) < NEAR, last
        for begin, width in ((0, 1), (3, 1), (5, 4), (15, 1)):
            some = mx.array(places[begin : begin + width], mx.int32)
            for view in (keys, 5_300):
                found = compute.attend(queries[begin : begin + width], cache, some, view)
                assert same(found, whole[begin : begin + width]), (last, begin, width, view)
        stale = mx.where(mx.arange(5_300)[None, :, None] > last, cache * -3 + 1, cache)
        assert same(compute.attend(queries, stale, mx.array(places, mx.int32), keys), whole), last


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(9, 3, 64), (64, 8, 128)])
def test_a_leaf_attends_as_a_draft_in_its_place_would(heads: int, kv_heads: int, size: int) -> None:
    compute, drafts = kernels(heads, kv_heads, size), 10
    cache, queries = random(2 * kv_heads, 5_300, size, seed=8), random(ROWS, heads, size, seed=9)
    for first in (0, 55, 60, 300, 505, 2_040, 5_000):  # splits end among the drafts, too
        straight = [first + row for row in range(drafts)]
        before = [0, 0, 3, 4, 8, 0][: ROWS - drafts]
        places = [*straight, *(first + 1 + row for row in before)]
        keys = first + 200
        given = mx.array([*places, *range(first + drafts, first + ROWS)], mx.int32)
        found = compute.attend(queries, cache, given, keys)
        assert same(found[:drafts], compute.attend(queries[:drafts], cache, mx.array(straight, mx.int32), keys)), first
        for row in range(drafts, ROWS):
            place = mx.array(places[row : row + 1], mx.int32)
            moved = mx.array(cache)
            moved[:, places[row]] = cache[:, first + row]
            lone = compute.attend(queries[row : row + 1], moved, place, keys)
            assert same(found[row : row + 1], lone), (first, row)
            assert not same(found[row : row + 1], compute.attend(queries[row : row + 1], cache, place, keys)), "control"


def test_a_row_is_moved_in_every_cache_and_nothing_else_is() -> None:
    compute = kernels(8, 2, 64)
    layers = [random(4, 90, 64, seed=seed) for seed in range(5)]
    wanted = [mx.array(layer) for layer in layers]
    mx.eval(layers, wanted)
    for layer in wanted:
        layer[:, 70] = layer[:, 81]
    mx.eval(wanted)
    mx.eval(compute.move(layers, 81, 70))
    assert all(same(layer, other) for layer, other in zip(layers, wanted, strict=True))


def shapes() -> Iterable[dict[str, int]]:
    yield {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1_536}
    yield {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 1_376}


@pytest.mark.parametrize("shape", list(shapes()), ids=["grouped", "MHA"])
def test_a_model_is_served_by_the_kernels_and_agrees_with_mlx(tmp_path: Path, shape: dict[str, int]) -> None:
    folder = checkpoint(tmp_path, mx.bfloat16, head_dim=64, **shape)
    model = load(folder, CUDA)
    assert model.kernels.startswith("tf-cuda")
    model.use(model.plan.with_band(tuple(range(1, ROWS + 1)), ROWS))
    prompt = ids(150)
    cache = read(model, prompt)
    window = [prompt[-1], *ids(ROWS - 1, 7)]
    together = model.verify([Window(cache, window)])
    mx.eval(together)
    for at, token in enumerate(window):
        assert same(model.verify([Window(cache, [token])]), together[at : at + 1]), at
        model.keep(cache, 1)


def test_leaves_of_a_model_have_the_bits_of_drafts(tmp_path: Path) -> None:
    shape = next(iter(shapes()))
    model = load(checkpoint(tmp_path, mx.bfloat16, head_dim=64, **shape), CUDA)
    model.use(model.plan.with_band(tuple(range(1, ROWS + 1)), ROWS))
    assert all(same(ours, theirs) for ours, theirs in leaf_rows(model))


def test_kernels_that_compute_otherwise_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stock = CudaForm.linear
    monkeypatch.setattr(CudaForm, "linear", lambda self, rows, weights: stock(self, rows, weights) * 1.1)
    shape = next(iter(shapes()))
    model = load(checkpoint(tmp_path, mx.bfloat16, head_dim=64, **shape), CUDA)
    assert model.kernels == "mlx"
    assert not isinstance(model.rows.form, CudaForm)
    assert "product is off by" in caplog.text

"""What stands around the CUDA kernels: how work is cut, which shapes they take, and the forward through them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.utils import load_model

from tests.cuda import ON_CUDA
from tests.llama.leaves import leaf_rows
from tests.llama.reference import H200, ReferenceKernels
from tests.llama.tiny import LLAMA3, both, checkpoint, config, ids, load, read
from tf_llama.config import LlamaConfig
from tf_llama.model import LlamaModel
from tf_llama.rows import forms
from tf_llama.rows.cache import Layout, LlamaCache
from tf_llama.rows.cuda import compiling, plan
from tf_llama.rows.cuda import form as cuda_form
from tf_llama.rows.cuda.form import CudaForm, fits
from tf_llama.rows.cuda.layout import RowsLayout
from tf_llama.rows.cuda.trial import what_is_off
from tf_llama.rows.gpu import GpuForm
from tf_llama.rows.span import Span
from tf_plugins.types import Device, Leaf, Window

CPU = Device("cpu", "cpu", "cpu", dtype="float32", compiled=False)
CUDA = Device("gpu", "cuda", "a CUDA device, its kernels played by MLX")
SHAPE: dict[str, Any] = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}


@pytest.mark.parametrize("depth", [32, 576, 1_536, 4_096, 5_120, 8_192, 14_336, 25_600, 28_672])
def test_a_block_keeps_its_slice_of_the_rows(depth: int) -> None:
    count = plan.slices(depth, H200.shared)
    assert count is not None
    assert depth % (count * plan.RUN) == 0
    assert plan.held(depth // count) <= H200.shared
    fewer = [n for n in range(1, count) if depth % (n * plan.RUN) == 0]
    assert all(plan.held(depth // n) > H200.shared for n in fewer)


def test_a_depth_that_does_not_divide_has_no_slices() -> None:
    assert plan.slices(40, H200.shared) is None
    assert plan.slices(32, 16_384) is None  # no room for one run


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("depth", [576, 1_536, 4_096, 5_120])
@pytest.mark.parametrize("rows", plan.WIDTHS)
def test_a_whole_forward_uses_the_memory_that_there_is(rows: int, depth: int, size: int) -> None:
    found = plan.width(rows, depth, size, H200.shared)
    assert found is not None
    stage = 2 * 32 * (size * 2 + 16)  # keys and values
    ring = 8 * (rows * 20 * 4 + found.ahead * 16 * plan.RUN * 2)
    assert ring + max(rows * (depth * 2 + 16), found.stages * stage) <= found.memory
    assert found.memory + 768 <= H200.shared
    assert found.stages >= 2
    assert found.ahead >= plan.AHEAD
    assert plan.width(rows, 12_000, size, H200.shared) is None or rows == 8


def test_a_rows_layout_says_where_every_row_is() -> None:
    kept = Layout(1, 2, 64, mx.bfloat16)
    caches = [LlamaCache(kept, capacity) for capacity in (600, 90)]
    caches[0].length, caches[1].length = 510, 64
    spans = [Span(caches[0], 6, 600, (0, 2)), Span(caches[1], 1, 90)]
    layout = RowsLayout.of(spans, [11, 12, 13, 14, 15, 16, 17])
    assert len(layout.packed) == RowsLayout.BYTES
    numbers = struct.unpack("<2i" + "2i4h" * 16 + "16i16i16b16i", layout.packed)
    splits = [plan.splits(514), plan.splits(65)]
    assert numbers[:2] == (7, sum(splits) + 2)
    assert numbers[2:8] == (600, 0, 0, 6, 2, splits[0])
    assert numbers[8:14] == (90, 6 * splits[0], 6, 1, 0, splits[1])
    assert not any(numbers[14:98])
    positions, places, streams, tokens = (numbers[98 + at : 114 + at] for at in range(0, 64, 16))
    assert positions[:7] == (510, 511, 512, 513, 511, 513, 64)  # a leaf stands where the draft does
    assert places[:7] == (510, 511, 512, 513, 514, 515, 64)
    assert streams[:7] == (0, 0, 0, 0, 0, 0, 1)
    assert tokens[:7] == (11, 12, 13, 14, 15, 16, 17)
    assert layout.sums == 6 * splits[0] + splits[1]
    unknown = struct.unpack("<2i" + "2i4h" * 16 + "16i16i16b16i", RowsLayout.of(spans, None).packed)
    assert unknown[-16:-9] == (-1,) * 7


def test_splits_cover_every_key_once() -> None:
    """Counted by the rule that the kernel starts a split by."""
    short = plan.UNTIL_SHORT // plan.SHORT
    middle = short + (plan.UNTIL_MIDDLE - plan.UNTIL_SHORT) // plan.MIDDLE

    def start(split: int) -> int:
        if split < short:
            return split * plan.SHORT
        if split < middle:
            return plan.UNTIL_SHORT + (split - short) * plan.MIDDLE
        return plan.UNTIL_MIDDLE + (split - middle) * plan.LONG

    for keys in (1, 63, 64, 65, 256, 511, 512, 513, 1_300, 2_047, 2_048, 2_049, 5_000, 131_072):
        count = plan.splits(keys)
        assert start(count - 1) < keys <= start(count), keys


def parsed(**changes: Any) -> LlamaConfig:
    return LlamaConfig.parse(config(**SHAPE | changes), Path("config.json"))


def test_which_shapes_and_devices_they_take() -> None:
    assert fits(parsed(), mx.bfloat16, H200)
    assert not fits(parsed(), mx.float16, H200)
    assert not fits(parsed(), mx.bfloat16, replace(H200, major=8))
    assert not fits(parsed(), mx.bfloat16, replace(H200, shared=101_376))
    assert not fits(parsed(head_dim=32), mx.bfloat16, H200)
    assert not fits(parsed(attention_bias=True), mx.bfloat16, H200)
    assert not fits(parsed(num_attention_heads=32, num_key_value_heads=2), mx.bfloat16, H200)
    assert not fits(parsed(intermediate_size=168), mx.bfloat16, H200)


def compare(model: LlamaModel, reference: Any) -> None:
    """Windows of several sizes after a prompt, within what bfloat16 rounds in every layer."""
    for ours, theirs in both(model, reference):
        assert (mx.linalg.norm(ours - theirs) / mx.linalg.norm(theirs)).item() < 0.02


def played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "processor", lambda: H200)
    monkeypatch.setattr(cuda_form, "Kernels", ReferenceKernels)


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_key_value_heads": 4, "tie_word_embeddings": False}, {"rope_scaling": LLAMA3}, {"vocab_size": 325}],
    ids=["gqa tied", "mha untied", "llama3 rope", "odd vocabulary"],
)
def test_a_forward_through_them_equals_mlx_lm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    played(monkeypatch)
    checkpoint(tmp_path, mx.bfloat16, **SHAPE | changes)
    model = load(tmp_path, CUDA)
    assert isinstance(model.rows.form, CudaForm)
    assert model.kernels == f"tf-cuda {compiling.source_digest()}"
    model.use(model.plan.with_band(tuple(range(1, plan.ROWS + 1)), plan.ROWS))
    compare(model, load_model(tmp_path)[0])


def worst(rows: list[tuple[mx.array, mx.array]]) -> float:
    return max((mx.linalg.norm(ours - theirs) / mx.linalg.norm(theirs)).item() for ours, theirs in rows)


def test_a_leaf_computes_what_a_draft_in_its_place_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    model = load(tmp_path, CUDA)
    model.use(model.plan.with_band(tuple(range(1, plan.ROWS + 1)), plan.ROWS))
    assert model.takes_leaves
    rows = leaf_rows(model)
    assert worst(rows) < 0.02


@pytest.mark.parametrize("fault", ["attend", "move"])
def test_the_control_a_leaf_that_sees_a_draft_or_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    played(monkeypatch)
    right = ReferenceKernels.attend

    def without_its_key(self: Any, queries: mx.array, cache: mx.array, positions: mx.array, keys: int) -> mx.array:
        rows = queries.shape[0]
        outputs = [right(self, queries[row : row + 1], cache, positions[row : row + 1], keys) for row in range(rows)]
        return mx.concatenate(outputs)

    wrong: dict[str, Any] = {"attend": without_its_key, "move": lambda self, layers, source, target: mx.array([1])}
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    model = load(tmp_path, CUDA)
    model.use(model.plan.with_band(tuple(range(1, plan.ROWS + 1)), plan.ROWS))
    monkeypatch.setattr(ReferenceKernels, fault, wrong[fault])
    assert worst(leaf_rows(model)) > 0.02


def test_leaves_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    stock = load(tmp_path, CPU)
    assert not stock.takes_leaves
    with pytest.raises(ValueError, match="leaves in place of drafts"):
        stock.verify([Window(read(stock, ids(20)), [1, 2], [Leaf(0, 3)])])
    played(monkeypatch)
    model = load(tmp_path, CUDA)
    model.use(model.plan.with_band(tuple(range(1, plan.ROWS + 1)), plan.ROWS))
    cache = read(model, ids(20))
    for place in (-1, 1, 5):
        with pytest.raises(ValueError, match="leaves in place of drafts"):
            model.verify([Window(cache, [1, 2], [Leaf(place, 3)])])
    with pytest.raises(ValueError, match="not known yet"):
        model.verify([Window(cache, mx.array([1])), Window(cache, [1, 2], [Leaf(0, 3)])])
    model.use(model.plan.with_band((32,), 32))
    assert not model.takes_leaves  # so many queries a call are MLX's


@pytest.mark.parametrize("widths", [(1,), (2,), (1, 2, 3)])
def test_a_server_warms_up_with_leaves_where_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widths: tuple[int, ...]
) -> None:
    played(monkeypatch)
    moved: list[tuple[int, int]] = []
    stock = ReferenceKernels.move

    def move(self: Any, layers: list[mx.array], source: int, target: int) -> mx.array:
        moved.append((source, target))
        return stock(self, layers, source, target)

    monkeypatch.setattr(ReferenceKernels, "move", move)
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    model = load(tmp_path, CUDA)
    model.use(model.plan.with_band(widths, 1))
    model.warm(lambda doing, done: None)
    assert moved == ([(2, 1)] if widths[-1] > 2 else [])


def test_a_deep_product_is_summed_from_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device whose blocks hold less: every product in slices, the gated one too."""
    monkeypatch.setattr(cuda_form, "_SHARED", plan.held(64))
    monkeypatch.setattr(forms, "processor", lambda: replace(H200, shared=plan.held(64)))
    monkeypatch.setattr(cuda_form, "Kernels", ReferenceKernels)
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    model = load(tmp_path, CUDA)
    assert isinstance(model.rows.form, CudaForm)
    model.use(model.plan.with_band(tuple(range(1, plan.ROWS + 1)), plan.ROWS))
    compare(model, load_model(tmp_path)[0])


@pytest.mark.parametrize("function", ["linear", "parts", "gated", "norm", "add_and_norm", "rotate", "attend"])
def test_kernels_that_compute_otherwise_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    played(monkeypatch)
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    whole = load(tmp_path, CUDA)
    assert what_is_off(whole.rows.form, GpuForm(parsed(), whole.rows.form._rope, mx.bfloat16), whole.rows.weights) == ""  # type: ignore[attr-defined]
    right = getattr(ReferenceKernels, function)

    def scaled(found: Any) -> Any:
        return tuple(map(scaled, found)) if isinstance(found, tuple) else found * 1.1

    def wrong(*given: Any) -> Any:
        found = right(*given)
        return scaled(found)

    monkeypatch.setattr(ReferenceKernels, function, wrong)
    model = load(tmp_path, CUDA)
    assert isinstance(model, LlamaModel)
    assert model.kernels == "mlx"
    assert not isinstance(model.rows.form, CudaForm)
    assert "is off by" in caplog.text


def test_kernels_that_do_not_compile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MLX without CUDA refuses them as one without a compiler does."""
    monkeypatch.setattr(forms, "processor", lambda: H200)
    if ON_CUDA:
        pytest.skip("they compile here")
    checkpoint(tmp_path, mx.bfloat16, **SHAPE)
    assert load(tmp_path, CUDA).kernels == "mlx"
    assert "the CUDA kernels of tf-plugins are left out, MLX's serve: compiling: " in caplog.text

"""The rows forward computes what mlx-lm's own forward computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import pytest
from mlx_lm.utils import load_model

from tests.llama.tiny import (
    CONTEXT,
    LLAMA3,
    SHAPES,
    both,
    checkpoint,
    config,
    ids,
    load,
    quiet,
    read,
    weights,
    wide_plan,
)
from tf_llama.model import LlamaModel
from tf_plugins import RowPlan
from tf_plugins.types import Device, Window

TOLERANCE = {mx.float32: 2e-4, mx.float16: 0.05, mx.bfloat16: 0.4}
"""Largest difference of a logit, next to logits of about eight; half precision rounds every layer."""


def compare(model: LlamaModel, reference: Any, dtype: mx.Dtype) -> None:
    for ours, theirs in both(model, reference):
        assert mx.allclose(ours, theirs, rtol=0, atol=TOLERANCE[dtype]).item()
        if dtype == mx.float32:
            assert mx.argmax(ours, axis=-1).tolist() == mx.argmax(theirs, axis=-1).tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_mlx_lm(tmp_path: Path, device: Device, shape: str) -> None:
    checkpoint(tmp_path, **SHAPES[shape])
    model = load(tmp_path, device)
    model.use(wide_plan(model, device.kind))
    compare(model, load_model(tmp_path)[0], mx.float32)


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16], ids=["bf16", "f16"])
def test_equals_mlx_lm_in_half_precision(tmp_path: Path, dtype: mx.Dtype) -> None:
    checkpoint(tmp_path, dtype)
    model = load(tmp_path, Device("cpu", "cpu", "cpu"))
    model.use(wide_plan(model, "cpu"))
    assert model.make_cache(10).layers[0].dtype == dtype
    compare(model, load_model(tmp_path)[0], dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tile", [16, 4])
def test_the_form_of_a_gpu_equals_mlx_lm(tmp_path: Path, shape: str, tile: int) -> None:
    checkpoint(tmp_path, **SHAPES[shape])
    model = load(tmp_path, Device("gpu", "cuda", "the form of a GPU, run by whatever is here"))
    model.use(replace(wide_plan(model, "gpu"), tile=tile, grid=64))
    compare(model, load_model(tmp_path)[0], mx.float32)


def test_the_form_of_a_gpu_writes_whole_tiles_up_to_the_last_position(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, Device("gpu", "cuda", "the form of a GPU, run by whatever is here"))
    model.use(replace(wide_plan(model, "gpu"), tile=16))
    cache = read(model, ids(CONTEXT))
    assert cache.length == CONTEXT - 1
    mx.eval(model.verify([Window(cache, [5])]))
    assert all(mx.all(mx.isfinite(layer)).item() for layer in cache.layers)


def test_the_device_dtype_is_the_served_one(tmp_path: Path) -> None:
    checkpoint(tmp_path, mx.bfloat16)
    model = load(tmp_path, Device("cpu", "cpu", "cpu", dtype="float32"))
    model.use(wide_plan(model, "cpu"))
    reference = load_model(tmp_path)[0]
    reference.set_dtype(mx.float32)
    compare(model, reference, mx.float32)


def test_weights_of_several_files_and_mixed_dtypes(tmp_path: Path, device: Device) -> None:
    raw = weights(config())
    checkpoint(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    norms = {name: array for name, array in raw.items() if array.ndim == 1}
    mx.save_safetensors(str(tmp_path / "model-00001-of-00002.safetensors"), norms)
    rest = {name: array.astype(mx.bfloat16) for name, array in raw.items() if array.ndim > 1}
    mx.save_safetensors(str(tmp_path / "model-00002-of-00002.safetensors"), rest)
    model = load(tmp_path, Device("cpu", "cpu", "cpu"))
    assert model.checkpoint.dtype == "bfloat16"
    assert model.rows.weights.norm.dtype == mx.bfloat16


@pytest.mark.parametrize("old", [{"rope_scaling": LLAMA3, "rope_theta": 500_000.0}, {"rope_theta": 70_000.0}])
def test_rope_parameters_under_their_new_name(tmp_path: Path, device: Device, old: dict[str, Any]) -> None:
    checkpoint(tmp_path / "old", **old)
    new = {"rope_type": "default", **old.get("rope_scaling", {}), "rope_theta": old["rope_theta"]}
    checkpoint(tmp_path / "new", rope_parameters=new, rope_theta=None)
    model = load(tmp_path / "new", device)
    model.use(wide_plan(model, device.kind))
    compare(model, load_model(tmp_path / "old")[0], mx.float32)


@pytest.mark.parametrize("tied", [True, False])
def test_where_config_does_not_say_a_stored_head_is_served(tmp_path: Path, device: Device, tied: bool) -> None:
    checkpoint(tmp_path / "said", tie_word_embeddings=tied)
    checkpoint(tmp_path / "silent", tie_word_embeddings=tied)
    (tmp_path / "silent" / "config.json").write_text(
        (tmp_path / "said" / "config.json").read_text().replace(f'"tie_word_embeddings": {str(tied).lower()}, ', "")
    )
    assert "tie_word" not in (tmp_path / "silent" / "config.json").read_text()
    model = load(tmp_path / "silent", device)
    model.use(wide_plan(model, device.kind))
    compare(model, load_model(tmp_path / "said")[0], mx.float32)


@pytest.mark.exact
def test_compiled_equals_eager_in_this_process(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    rows = []
    for compiled in (False, True):
        model = load(tmp_path, Device("cpu", "cpu", "cpu", "float32", compiled))
        model.use(wide_plan(model, "cpu"))
        cache = read(model, ids(100))
        rows.append(model.verify([Window(cache, ids(8, 1))]))
    assert mx.allclose(rows[0], rows[1], atol=1e-4).item()


def test_windows_that_do_not_fit_are_refused(tmp_path: Path, device: Device) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, device)
    model.use(wide_plan(model, device.kind))
    cache = model.make_cache(CONTEXT)
    with pytest.raises(ValueError, match="17 rows do not fit a forward of 1 to 16"):
        model.verify([Window(cache, [1] * 17)])
    cache.length = 250
    with pytest.raises(ValueError, match="7 rows at position 250 do not fit the bucket that ends at 256"):
        model.verify([Window(cache, [1] * 7)])
    with pytest.raises(TypeError, match="is no cache of this family"):
        model.verify([Window(object(), [1])])  # type: ignore[arg-type]


def test_release_drops_the_weights(tmp_path: Path, device: Device) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, device)
    before = mx.get_active_memory()
    held = model.rows.weights.table.nbytes
    model.release()
    assert mx.get_active_memory() <= before - held


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_warm_runs_and_tells(tmp_path: Path, kind: str) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, Device(kind, kind, "the form of this kind, run by whatever is here"))
    model.use(wide_plan(model, kind))
    told: list[float] = []
    model.warm(lambda doing, done: told.append(done))
    assert told == sorted(told)
    assert told[-1] == 1.0


def attended_shapes(model: LlamaModel, run: Callable[[], object]) -> list[tuple[int, int, int]]:
    """Cache length, keys and queries of each attention call while something runs."""
    form, seen = model.rows.form, []
    attend = form.attend

    def told(queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        seen.append((cache.shape[1], keys, queries.shape[0]))
        return attend(queries, cache, keys, mask)

    form.attend = told  # type: ignore[method-assign]
    try:
        run()
    finally:
        del form.attend  # type: ignore[attr-defined]
    return seen


def test_warm_attends_at_every_bucket_of_every_cache_length_of_a_gpu(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, Device("gpu", "cuda", "the form of a GPU, run by whatever is here"))
    plan = replace(RowPlan.for_device("gpu", CONTEXT), widths=(16, 32), tile=16)
    model.use(plan)
    seen = {
        (length, keys) for length, keys, queries in attended_shapes(model, lambda: model.warm(quiet)) if queries == 16
    }
    assert {(plan.capacity(rung), edge) for rung in plan.rungs for edge in plan.edges if edge <= rung} <= seen


def test_padding_fills_the_last_tile_of_a_gpu_without_copies(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    model = load(tmp_path, Device("gpu", "cuda", "the form of a GPU, run by whatever is here"))
    model.use(replace(RowPlan.for_device("gpu", CONTEXT), widths=(16, 32), tile=16))
    caches = [read(model, ids(40)) for _ in range(2)]

    def queries(*rows: int) -> set[int]:
        windows = [Window(cache, [5] * count) for cache, count in zip(caches, rows, strict=False)]
        return {shape[2] for shape in attended_shapes(model, lambda: mx.eval(model.verify(windows)))}

    assert queries(1) == queries(16) == {16}
    assert queries(20) == {32}
    assert queries(5, 12) == {5, 16}
    assert queries(5, 6) == {5, 11}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_pending_token_may_be_computed_on_the_way(tmp_path: Path, kind: Literal["cpu", "gpu"]) -> None:
    """The same bits as with the token read first, alone and beside another stream, with padding rows and without."""
    checkpoint(tmp_path)
    model = load(tmp_path, Device(kind, "cuda" if kind == "gpu" else "cpu", "run by whatever is here"))
    model.use(model.plan.with_band((1, 4), 1))
    for prompts in ([ids(40)], [ids(40), ids(23, 5)]):
        found = []
        for lazy in (False, True):
            caches = [read(model, prompt) for prompt in prompts]
            logits = model.verify([Window(c, p[-1:]) for c, p in zip(caches, prompts, strict=True)])
            drawn = mx.argmax(logits, axis=-1)
            for cache in caches:
                model.keep(cache, 1)
            pending = [drawn[at : at + 1] if lazy else [drawn[at].item()] for at in range(len(caches))]
            found.append(model.verify([Window(c, p) for c, p in zip(caches, pending, strict=True)]))
        assert mx.array_equal(*found).item()

"""Caches and kept states: layout, bytes, bounds, copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest

from tests.llama.tiny import checkpoint, ids, load, read, wide_plan
from tf_llama.model import LlamaModel
from tf_llama.rows.cache import CacheOverflow
from tf_plugins.types import Device, Window


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, device: Device) -> Iterator[LlamaModel]:
    model = load(checkpoint(tmp_path_factory.mktemp("tiny")), device)
    model.use(wide_plan(model, device.kind))
    yield model
    model.release()


def test_bytes_are_what_was_said(tiny: LlamaModel) -> None:
    before = mx.get_active_memory()
    cache = tiny.make_cache(300)
    assert cache.held == cache.capacity == tiny.plan.capacity(300) >= 512 + tiny.plan.tile
    assert cache.nbytes == tiny.cache_bytes(300) == 3 * 2 * 2 * 16 * 4 * cache.capacity
    assert mx.get_active_memory() - before == pytest.approx(cache.nbytes, rel=0.05)


def test_memory_is_taken_as_positions_come(tiny: LlamaModel) -> None:
    cache, whole = tiny.make_cache(600), tiny.cache_bytes(600)
    if tiny.device.kind == "gpu":
        assert cache.nbytes == whole
        return
    assert cache.nbytes == tiny.cache_bytes(1) < whole
    rows = [mx.random.normal(layer.shape, key=mx.random.key(at)) for at, layer in enumerate(cache.layers)]
    cache.layers = [mx.array(layer) for layer in rows]
    mx.eval(cache.layers)
    before, _ = mx.get_active_memory(), mx.reset_peak_memory()
    cache.hold(10_000)
    assert cache.nbytes == whole
    # A layer more than all of them at most: the ledger booked no two caches.
    assert mx.get_peak_memory() - before <= whole - tiny.cache_bytes(1) + 1.05 * whole / len(rows)
    for grown, layer in zip(cache.layers, rows, strict=True):
        assert mx.array_equal(grown[:, : layer.shape[1]], layer).item()
        assert not mx.any(grown[:, layer.shape[1] :]).item()


def test_a_write_past_the_end_is_refused_before_anything_is_written(tiny: LlamaModel) -> None:
    cache = tiny.make_cache(300)
    cache.length = cache.capacity - 2
    before = [mx.array(layer) for layer in cache.layers]
    tiny.use(wide_plan(tiny, "cpu"))
    with pytest.raises(CacheOverflow, match=rf"3 rows from position {cache.length} on do not fit a cache of 528"):
        tiny.verify([Window(cache, [1, 2, 3])])
    assert all(mx.array_equal(a, b).item() for a, b in zip(before, cache.layers, strict=True))


def test_a_state_is_a_copy_of_its_own(tiny: LlamaModel) -> None:
    cache = read(tiny, ids(130))
    state = tiny.save(cache, 64)
    assert (state.length, state.nbytes) == (64, tiny.state_bytes(64))
    before = mx.array(state.rows)
    cache.length = 0
    tiny.prefill(cache, ids(64, 3))
    assert mx.array_equal(before, state.rows).item()


def test_a_state_comes_back_from_a_file(tiny: LlamaModel, tmp_path: Path) -> None:
    state = tiny.save(read(tiny, ids(130)), 64)
    mx.save_safetensors(str(tmp_path / "state.safetensors"), state.arrays())
    loaded = tiny.load_state(cast(dict[str, Any], mx.load(str(tmp_path / "state.safetensors"))))
    cache = tiny.make_cache(600)
    tiny.restore(cache, loaded)
    assert cache.length == 64
    assert mx.array_equal(mx.stack([layer[:, :64] for layer in cache.layers]), state.rows).item()
    with pytest.raises(ValueError, match="restored into a fresh cache"):
        tiny.restore(cache, loaded)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"other": mx.zeros((3, 4, 64, 16))},
        {"rows": mx.zeros((3, 4, 64, 16)), "more": mx.zeros(1)},
        {"rows": mx.zeros((2, 4, 64, 16))},
        {"rows": mx.zeros((3, 4, 64, 8))},
        {"rows": mx.zeros((3, 4, 0, 16))},
        {"rows": mx.zeros((3, 64, 16))},
        {"rows": mx.zeros((3, 4, 64, 16), dtype=mx.int32)},
    ],
)
def test_a_state_of_another_model_is_refused(tiny: LlamaModel, arrays: dict[str, mx.array]) -> None:
    with pytest.raises(ValueError, match="a kept state"):
        tiny.load_state(arrays)


@pytest.mark.parametrize("tokens", [0, 131])
def test_a_state_of_more_than_was_read_is_refused(tiny: LlamaModel, tokens: int) -> None:
    with pytest.raises(ValueError, match="positions of a cache that holds 129"):
        tiny.save(read(tiny, ids(130)), tokens)


def test_a_state_longer_than_the_cache_is_refused(tiny: LlamaModel) -> None:
    state = tiny.save(read(tiny, ids(600)), 599)
    with pytest.raises(CacheOverflow):
        tiny.restore(tiny.make_cache(300), state)


@pytest.mark.parametrize("tokens", [70_000, 122_880])
def test_long_requests_have_room_for_all_that_their_rows_see(tmp_path: Path, device: Device, tokens: int) -> None:
    folder = checkpoint(tmp_path / "long", num_hidden_layers=2, hidden_size=32, max_position_embeddings=131_072)
    model = load(folder, device)
    model.use(wide_plan(model, device.kind))
    cache = model.make_cache(tokens)
    cache.length = (tokens - 100) // model.plan.grid * model.plan.grid
    model.prefill(cache, ids(64))
    assert mx.isfinite(model.verify([Window(cache, ids(3))])).all().item()
    model.release()

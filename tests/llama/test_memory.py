"""A step writes its rows in place: no copy of a cache, at 512 and at 8,000 tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from tests.llama.tiny import checkpoint, load, wide_plan
from tf_llama.model import LlamaModel
from tf_plugins.types import Device, Window

LAYERS, POSITION = 8, 2 * 4 * 64 * 4
"""Bytes of a position in a layer."""

ONE_BUCKET_A_LAYER = LAYERS * 256 * POSITION


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory, device: Device) -> Iterator[LlamaModel]:
    folder = checkpoint(
        tmp_path_factory.mktemp("deep"),
        num_hidden_layers=LAYERS,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=8_192,
    )
    model = load(folder, device)
    model.use(wide_plan(model, device.kind))
    yield model
    model.release()


def extra(model: LlamaModel, cache: Any, rows: int) -> int:
    """Peak bytes of a step above what is held between steps."""
    for _ in range(2):  # the first one compiles
        mx.synchronize()
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        mx.eval(model.verify([Window(cache, [1] * rows)]))
        peak = mx.get_peak_memory() - before
        model.keep(cache, 1)
    return peak


@pytest.mark.exact
@pytest.mark.parametrize("tokens", [512, 8_000])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_step_takes_less_than_a_bucket_a_layer(deep: LlamaModel, tokens: int, rows: int) -> None:
    cache = deep.make_cache(8_192)
    cache.length = tokens
    assert extra(deep, cache, rows) < ONE_BUCKET_A_LAYER


def test_control_a_live_view_of_a_cache_is_seen_as_a_copy(deep: LlamaModel) -> None:
    cache = deep.make_cache(8_192)
    cache.length = 512
    held = []
    for _ in range(2):
        held = [layer[:, :256] for layer in cache.layers]
        mx.eval(held)
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        mx.eval(deep.verify([Window(cache, [1])]))
    assert len(held) == LAYERS
    assert mx.get_peak_memory() - before > cache.nbytes // 2


def test_a_prompt_chunk_copies_no_cache(deep: LlamaModel) -> None:
    cache = deep.make_cache(8_192)
    cache.length = 4_096
    deep.prefill(cache, [1] * 64)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    deep.prefill(cache, [1] * 64)
    # Scores of 64 rows over 5,120 keys take more than a bucket; one layer's cache would take four times as much.
    assert mx.get_peak_memory() - before < cache.nbytes // 2


@pytest.mark.exact
def test_memory_is_flat_over_many_rounds(deep: LlamaModel) -> None:
    cache = deep.make_cache(1_024)
    cache.length = 200
    sizes = [1, 3, 2, 8, 1, 5]
    for size in sizes:
        mx.eval(deep.verify([Window(cache, [1] * size)]))
    before = mx.get_active_memory()
    for turn in range(300):
        mx.eval(deep.verify([Window(cache, [turn] * sizes[turn % 6])]))
        cache.length = 200 + turn % 40
    assert mx.get_active_memory() == before

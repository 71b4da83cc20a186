"""A whole forward in one launch has the bits of the kernels that it is made of. On a CUDA device alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.cuda import ON_CUDA
from tests.llama.tiny import checkpoint, ids, load, read
from tf_llama.model import LlamaModel
from tf_llama.rows.cache import LlamaCache
from tf_llama.rows.cuda.forward import WholeForward
from tf_llama.rows.cuda.plan import ROWS
from tf_llama.rows.span import Span
from tf_plugins.types import Device, Leaf, Window

pytestmark = pytest.mark.skipif(not ON_CUDA, reason="there is no CUDA device here")

CUDA = Device("gpu", "cuda", "the first CUDA device", compiled=True)
CAPACITY = 5_400
SHAPES: dict[str, dict[str, Any]] = {
    "heads of 64 in threes": {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64},
    "heads of 64 alone": {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64},
    "heads of 128 in eights": {
        "hidden_size": 1_024,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 5_760,
        "vocab_size": 1_001,
        "num_hidden_layers": 2,
    },
    "slices": {
        "hidden_size": 256,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12_800,
        "num_hidden_layers": 2,
        "tie_word_embeddings": False,
    },
}

Stream = tuple[int, int, tuple[int, ...]]
"""Length of the cache, rows, and the rows before its leaves."""

FORWARDS: list[list[Stream]] = [
    [(0, 1, ())],
    [(63, 2, ())],
    [(300, 8, (0, 3, 3))],
    [(505, 16, (0, 0, 2, 8))],
    [(2_040, 12, ()), (17, 4, (1,))],
    [(5_000, 16, ())],
    [(100 + 90 * at, 4, ()) for at in range(4)],
    [(1 + 37 * at, 1, ()) for at in range(ROWS)],
]


def served(folder: Path, **shape: Any) -> LlamaModel:
    model = load(checkpoint(folder, mx.bfloat16, **{"intermediate_size": 1_376} | shape), CUDA)
    model.use(model.plan.with_band(tuple(range(1, ROWS + 1)), ROWS))
    return model


def same(some: mx.array, others: mx.array) -> bool:
    return bool(mx.array_equal(some.view(mx.uint16), others.view(mx.uint16)).item())


def filled(model: LlamaModel, streams: list[Stream]) -> list[Span]:
    spans = []
    for seed, (length, rows, leaves) in enumerate(streams):
        cache = LlamaCache(model.layout, CAPACITY)
        keys = mx.random.split(mx.random.key(seed), len(cache.layers))
        cache.layers = [
            mx.random.normal(layer.shape, key=key).astype(layer.dtype)
            for layer, key in zip(cache.layers, keys, strict=True)
        ]
        mx.eval(cache.layers)
        cache.length = length
        spans.append(Span(cache, rows, CAPACITY, leaves))
    return spans


@pytest.mark.parametrize("name", SHAPES)
def test_a_whole_forward_has_the_bits_of_single_operations(tmp_path: Path, name: str) -> None:
    model = served(tmp_path, **SHAPES[name])
    rows = model.rows
    whole = rows.whole
    assert isinstance(whole, WholeForward)
    for streams in FORWARDS:
        ours, theirs = filled(model, streams), filled(model, streams)
        tokens = mx.array(ids(sum(span.rows for span in ours), 3))
        found = rows.decode(tokens, ours, ROWS)
        rows.whole = None
        wanted = rows.decode(tokens, theirs, ROWS)
        rows.whole = whole
        mx.eval(found, wanted)
        assert same(found, wanted), streams
        for span, other in zip(ours, theirs, strict=True):
            assert all(map(same, span.cache.layers, other.cache.layers)), streams
            assert any(
                not same(layer, stale)
                for layer, stale in zip(span.cache.layers, filled(model, streams)[0].cache.layers, strict=True)
            ), "it wrote nothing"


def test_the_control_other_weights_have_other_bits(tmp_path: Path) -> None:
    model = served(tmp_path, **SHAPES["slices"])
    rows, streams = model.rows, FORWARDS[2]
    tokens = mx.array(ids(8, 3))
    found = rows.decode(tokens, filled(model, streams), ROWS)
    mx.eval(found)
    down = rows.weights.layers[1]["down"][0].T
    down[7, 12_799] += 1.0
    rows.weights.layers[1]["down"] = (down.T,)
    rows.whole = None
    assert not same(found, rows.decode(tokens, filled(model, streams), ROWS))


def test_forwards_that_nobody_reads_between_come_one_after_another(tmp_path: Path) -> None:
    """Two at once would wait for each other's blocks."""
    model = served(tmp_path, **SHAPES["heads of 64 in threes"])
    prompt = ids(150)
    one, other = read(model, prompt), read(model, prompt)
    windows = [[Window(one, [prompt[-1], *ids(3, 5)])], [Window(other, [prompt[-1], *ids(3, 5)], [Leaf(0, 9)])]]
    lazy = [model.verify(window) for window in windows]
    mx.eval(lazy)
    assert same(lazy[0], lazy[1][:4])
    token = mx.argmax(lazy[0][-1:], axis=-1)
    for cache in (one, other):
        model.keep(cache, 4)
    chained = [model.verify([Window(one, token)])]
    model.keep(one, 1)
    chained.append(model.verify([Window(one, mx.argmax(chained[0], axis=-1))]))
    mx.eval(chained)
    assert same(chained[0], model.verify([Window(other, [token.item()])]))


def test_what_mlx_writes_between_forwards_is_seen(tmp_path: Path) -> None:
    model = served(tmp_path, **SHAPES["heads of 64 in threes"])
    prompt = ids(400)
    cache, fresh = read(model, prompt[:100]), read(model, prompt)
    mx.eval(model.verify([Window(cache, prompt[99:102])]))
    kept = model.save(cache, 64)
    model.prefill(cache, prompt[cache.length : 256])
    model.prefill(cache, prompt[256:399])
    assert cache.length == fresh.length
    assert same(model.verify([Window(cache, [5, 6])]), model.verify([Window(fresh, [5, 6])]))
    restored = model.make_cache(500)
    model.restore(restored, kept)
    whole = model.verify([Window(restored, prompt[64:70])])
    mx.eval(whole)
    model.rows.whole = None
    assert same(whole, model.verify([Window(restored, prompt[64:70])]))


def test_blocks_that_wait_in_vain_give_up_and_the_model_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A grid that the device cannot hold, so that its blocks never all meet."""
    model = served(tmp_path, **SHAPES["heads of 64 in threes"])
    prompt = ids(150)
    cache = read(model, prompt)
    right = model.verify([Window(cache, [1, 2, 3])])
    mx.eval(right)
    whole = model.rows.whole
    assert isinstance(whole, WholeForward)
    whole._blocks *= 2
    assert bool(mx.all(mx.isnan(model.verify([Window(cache, [1, 2, 3])]))).item())
    whole._blocks //= 2
    assert bool(mx.all(mx.isnan(model.verify([Window(cache, [1, 2, 3])]))).item())
    assert "waited a second" not in caplog.text
    model.make_cache(64)
    assert model.rows.whole is None
    assert "waited a second" in caplog.text
    assert same(model.verify([Window(cache, [1, 2, 3])]), right)


def test_a_whole_forward_with_other_bits_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stock = WholeForward.__call__
    monkeypatch.setattr(WholeForward, "__call__", lambda self, *given: stock(self, *given) * 1.05)
    model = served(tmp_path, **SHAPES["heads of 64 in threes"])
    assert model.rows.whole is None
    assert model.kernels.startswith("tf-cuda")
    assert "logits of 1 rows of 1 streams differ" in caplog.text

"""A small Llama laid into a larger shape computes the same logits, whichever way it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama
from mlx_lm.utils import load_model

from benchmarks import laid, pairs
from benchmarks.pairs import Shape, Small
from tf_llama.family import LlamaFamily

VOCAB, LAYERS, SEED = 96, 3, 7
LARGER = {
    "heads as large": Shape(64, 5, 72, 12, 3, 8),
    "heads twice as large": Shape(64, 5, 72, 12, 3, 16),
}
TOKENS = [5, 17, 90, 3, 44, 8, 8, 61]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama in bfloat16: 16 wide, 4 heads over 2 of keys, three layers."""
    folder = tmp_path_factory.mktemp("small")
    config = {
        "model_type": "llama",
        "hidden_size": 16,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 24,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCAB,
        "rope_theta": 10_000.0,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    model = llama.Model(llama.ModelArgs.from_dict(config))
    mx.random.seed(3)
    weights = {
        name: (mx.random.normal(array.shape) * 0.4 + ("norm" in name)).astype(mx.bfloat16)
        for name, array in _flat(model).items()
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("shape", LARGER.values(), ids=LARGER)
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_a_written_folder_computes_the_small_models_logits(
    small: Path, tmp_path: Path, shape: Shape, sparse: bool
) -> None:
    folder = _written(small, tmp_path / "large", shape, sparse)
    model, _ = load_model(folder)
    _assert_close(_logits(model), _logits(load_model(small)[0]))


@pytest.mark.parametrize("shape", LARGER.values(), ids=LARGER)
def test_a_laid_module_is_the_dense_folder_bit_for_bit(small: Path, tmp_path: Path, shape: Shape) -> None:
    folder = _written(small, tmp_path / "large", shape, sparse=False)
    read, made = _flat(load_model(folder)[0]), _flat(laid.module(folder))
    assert read.keys() == made.keys()
    for name, array in read.items():
        assert mx.array_equal(array.view(mx.uint16), made[name].view(mx.uint16)), name


def test_a_sparse_folder_differs_from_a_dense_one_in_filler_alone(small: Path, tmp_path: Path) -> None:
    shape = LARGER["heads twice as large"]
    sparse = _flat(load_model(_written(small, tmp_path / "sparse", shape, True))[0])
    dense = _flat(load_model(_written(small, tmp_path / "dense", shape, False))[0])
    for name, array in sparse.items():
        kept = array != 0
        assert mx.array_equal(mx.where(kept, dense[name], 0), array), name
    gate = "model.layers.0.mlp.gate_proj.weight"
    assert mx.mean(dense[gate] != 0).item() > 2 * mx.mean(sparse[gate] != 0).item()


def test_no_line_of_the_filler_is_zero(small: Path) -> None:
    """Time on zeros is not the time on numbers."""
    for tensor in pairs.lay(Small(small), LARGER["heads as large"]):
        if tensor.filler and tensor.lines is None:
            values = np.array(laid.array(tensor, SEED).astype(mx.float32))
            assert (values != 0).mean() > 0.99


def test_the_family_reads_a_sparse_folder_as_any_checkpoint(small: Path, tmp_path: Path) -> None:
    folder = _written(small, tmp_path / "large", LARGER["heads as large"], True)
    checkpoint = LlamaFamily().read(folder, "target")
    assert checkpoint.context == 512
    assert checkpoint.weight_bytes == sum(
        tensor.nbytes for tensor in pairs.lay(Small(small), Shape.of(checkpoint.config))
    )
    assert (folder / "tokenizer.json").exists()


def test_shards_hold_no_more_than_they_may(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "SHARD_BYTES", 40_000)
    shape = LARGER["heads as large"]
    folder = _written(small, tmp_path / "large", shape, False)
    files = list(folder.glob("model-*.safetensors"))
    assert len(files) > 2
    _assert_close(_logits(load_model(folder)[0]), _logits(load_model(small)[0]))


def test_a_shape_that_is_too_small_is_refused(small: Path) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        list(pairs.lay(Small(small), Shape(16, 2, 24, 4, 2, 8)))


def _written(small: Path, folder: Path, shape: Shape, sparse: bool) -> Path:
    dense = None if sparse else lambda tensor: laid.bits(tensor, SEED)
    return pairs.write(Small(small), folder, shape, context=512, seed=SEED, dense=dense)


def _logits(model: Any) -> mx.array:
    """In float32, so that only the rounding of scaled weights is left between two models."""
    model.set_dtype(mx.float32)
    return model(mx.array([TOKENS]))[0]


def _assert_close(found: mx.array, expected: mx.array) -> None:
    error = mx.linalg.norm(found - expected) / mx.linalg.norm(expected)
    assert error.item() < 0.01


def _flat(model: Any) -> dict[str, mx.array]:
    from mlx.utils import tree_flatten

    return dict(tree_flatten(model.parameters()))

"""The converted folder is the checkpoint that it should be, to the byte."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from tf_demo import bf16
from tf_demo.gguf_file import unpermute

# Another hash means other weights: raise pair.FORMAT, so that cached folders are made again.
WEIGHTS_SHA256 = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"


def test_config(demo_pair: Any) -> None:
    assert json.loads((demo_pair.target / "config.json").read_text()) == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "vocab_size": 49_152,
        "rope_theta": 100_000.0,
        "max_position_embeddings": 8_192,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    generation = json.loads((demo_pair.target / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 2


def test_weights(demo_pair: Any) -> None:
    path = demo_pair.target / "model.safetensors"
    with safe_open(path, "numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 it is no mapping
        assert len(slices) == 272
        assert {slice_.get_dtype() for slice_ in slices.values()} == {"BF16"}
        assert "lm_head.weight" not in slices
        assert slices["model.layers.29.self_attn.k_proj.weight"].get_shape() == [192, 576]
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS_SHA256


def test_progress_runs_from_none_to_all(demo_pair: Any) -> None:
    shares = [share for _, share in demo_pair.told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (-2.0, 0xC000),
        (1.0 + 2**-8, 0x3F80),  # half way: to the even one below
        (1.0 + 3 * 2**-8, 0x3F82),  # half way: to the even one above
        (1.0 + 2**-8 + 2**-16, 0x3F81),
        (3.4e38, 0x7F80),
        (0.0, 0),
        (-0.0, 0x8000),
    ],
)
def test_rounding(value: float, bits: int) -> None:
    assert bf16.rounded(np.array([value], np.float32)).tolist() == [bits]


def test_unpermute_undoes_the_rope_order() -> None:
    rows = np.arange(2 * 6, dtype=np.float32)[:, None]  # two heads of six
    interleaved = rows.reshape(2, 2, 3, 1).swapaxes(1, 2).reshape(12, 1)
    assert interleaved[:6, 0].tolist() == [0, 3, 1, 4, 2, 5]
    assert (unpermute(interleaved, 2) == rows).all()


def test_a_weight_of_another_shape_is_an_error(tmp_path: Path) -> None:
    @dataclass
    class Wrong:
        name: str = "w"
        shape: tuple[int, ...] = (2, 3)

        def read(self) -> np.ndarray:
            return np.zeros((3, 2), np.float32)

    with pytest.raises(ValueError, match=r"w is shaped \(3, 2\), not \(2, 3\)"):
        bf16.write_safetensors(tmp_path / "x", [Wrong()], lambda share: None)

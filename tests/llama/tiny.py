"""Tiny random Llama checkpoints, and models and plans over them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.family import LlamaFamily
from tf_llama.model import LlamaModel
from tf_plugins import RowPlan
from tf_plugins.types import Device, Window

VOCAB, CONTEXT = 320, 640

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB,
    "rope_theta": 10_000.0,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
}

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}

SHAPES: dict[str, dict[str, Any]] = {
    "gqa tied": {},
    "mha untied": {"num_key_value_heads": 4, "tie_word_embeddings": False},
    "heads count alone": {"num_key_value_heads": None},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "llama3 rope": {"rope_scaling": LLAMA3, "rope_theta": 500_000.0},
    "linear rope": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "head size given": {"head_dim": 32, "num_key_value_heads": 1},
    "one layer": {"num_hidden_layers": 1},
}


def quiet(doing: str, done: float) -> None:
    pass


def config(**changes: Any) -> dict[str, Any]:
    """config.json of a tiny Llama; ``None`` leaves a key out."""
    return {key: value for key, value in (BASE | changes).items() if value is not None}


def weights(raw: dict[str, Any], dtype: mx.Dtype = mx.float32, seed: int = 0) -> dict[str, mx.array]:
    """Random weights that fit a config."""
    parsed = LlamaConfig.parse(raw, Path("config.json"))
    keys = mx.random.split(mx.random.key(seed), 1_000)
    found = {}
    for at, (name, shape) in enumerate(parsed.tensors(bool(raw.get("tie_word_embeddings"))).items()):
        noise = mx.random.normal(shape, key=keys[at])
        if len(shape) == 1:
            noise = 0.1 * noise + (0.0 if name.endswith(".bias") else 1.0)
        elif "embed" not in name:
            noise = noise * shape[1] ** -0.5
        found[name] = noise.astype(dtype)
    mx.eval(found)
    return found


def checkpoint(folder: Path, dtype: mx.Dtype = mx.float32, **changes: Any) -> Path:
    """Write a tiny checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = config(**changes)
    (folder / "config.json").write_text(json.dumps(raw))
    mx.save_safetensors(str(folder / "model.safetensors"), weights(raw, dtype))
    return folder


def load(folder: Path, device: Device) -> LlamaModel:
    """The family's model of a folder."""
    family = LlamaFamily()
    model = family.load(family.read(folder, "target"), device, quiet)
    assert isinstance(model, LlamaModel)
    return model


def wide_plan(model: LlamaModel, kind: str) -> RowPlan:
    """A plan in which every width up to 16 is allowed, whatever the bits say."""
    return RowPlan.for_device(kind, model.checkpoint.context, widths=tuple(range(1, 17)), tile=1)


def ids(count: int, seed: int = 0) -> list[int]:
    """Random token ids."""
    dealer = random.Random(seed)
    return [dealer.randrange(VOCAB) for _ in range(count)]


def read(model: LlamaModel, prompt: list[int], tokens: int | None = None, *, held: bool = False) -> Any:
    """A cache with all of a prompt but its last token read; ``held``: with memory for all that fits from the start."""
    cache = model.make_cache(tokens or model.checkpoint.context)
    cache.hold(cache.capacity if held else 1)
    for begin, end in model.plan.chunks(prompt):
        model.prefill(cache, prompt[begin:end])
    return cache


def both(model: LlamaModel, reference: Any) -> Iterator[tuple[mx.array, mx.array]]:
    """Float32 logits of windows of several sizes after a prompt: the model's, and mlx-lm's over the whole text."""
    prompt = ids(150)
    cache = read(model, prompt)
    last = prompt[-1:]
    for size in (1, 4, 9):
        window = [*last, *ids(size - 1, size)]
        ours = model.verify([Window(cache, window)]).astype(mx.float32)
        theirs = reference(mx.array([[*prompt[:-1], *window]]))[0, -size:].astype(mx.float32)
        yield ours, theirs
        model.keep(cache, size)
        prompt, last = [*prompt[:-1], *window, 5], [5]

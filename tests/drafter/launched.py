"""A drafter of a shape that the kernel takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.drafter import tiny
from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.drafter.start import start
from tf_plugins.types import Checkpoint

SHAPE: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 64,
}


def facts() -> Checkpoint:
    raw = tiny.args(**SHAPE) | {"architectures": ["LlamaForCausalLM"]}
    return tiny.checkpoint(dtype="bfloat16", config=raw, folder=Path("tiny"))


def made() -> LlamaDrafter:
    return start(tiny.module(**SHAPE), facts(), tiny.target("gpu"))

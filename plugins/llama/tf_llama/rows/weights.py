"""A Llama's weights, laid out for rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from tf_plugins.types import Progress

__all__ = ["Layer", "Linear", "Weights", "linear", "pack"]

Linear = tuple[mx.array, ...]
"""``weight [in, out]``, and ``bias [out]`` where there is one."""

Layer = dict[str, Any]
"""One block, as plain containers that ``mx.compile`` takes for arguments: ``attend_norm [D]``, ``attend`` (queries,
keys and values in one product), ``output``, ``mlp_norm [D]``, ``gate_up`` (both in one product), ``down``."""


@dataclass(slots=True)
class Weights:
    """All of a model.

    Attributes:
        table: embeddings ``[vocab, D]``.
        layers: the blocks.
        norm: weight of the last norm ``[D]``.
        head: ``[D, vocab]``; the table itself, seen from the other side, where they are tied.
    """

    table: mx.array
    layers: list[Layer]
    norm: mx.array
    head: mx.array

    @property
    def dtype(self) -> mx.Dtype:
        return self.table.dtype


def linear(rows: mx.array, weights: Linear) -> mx.array:
    """``rows [R, in]`` through a linear layer."""
    return rows @ weights[0] if len(weights) == 1 else mx.addmm(weights[1], rows, weights[0])


def pack(module: Any, dtype: mx.Dtype, progress: Progress) -> Weights:
    """Read mlx-lm's module a layer at a time, in ``dtype``; each block is dropped once it is packed.

    Args:
        module: ``mlx_lm.models.llama.Model``, lazy; emptied.
        dtype: of all weights.
        progress: told the share of layers read.
    """
    inner, tied = module.model, module.args.tie_word_embeddings
    blocks, inner.layers = list(inner.layers), []
    table = inner.embed_tokens.weight.astype(dtype)
    head = (table if tied else module.lm_head.weight.astype(dtype)).T
    norm = inner.norm.weight.astype(dtype)
    inner.embed_tokens = module.lm_head = None
    mx.eval(table, head, norm)
    layers: list[Layer] = []
    for at, block in enumerate(blocks):
        attention, mlp = block.self_attn, block.mlp
        layer = {
            "attend_norm": block.input_layernorm.weight.astype(dtype),
            "attend": _joined([attention.q_proj, attention.k_proj, attention.v_proj], dtype),
            "output": _joined([attention.o_proj], dtype),
            "mlp_norm": block.post_attention_layernorm.weight.astype(dtype),
            "gate_up": _joined([mlp.gate_proj, mlp.up_proj], dtype),
            "down": _joined([mlp.down_proj], dtype),
        }
        mx.eval(layer)
        layers.append(layer)
        blocks[at] = block = attention = mlp = None
        progress("loading weights", (at + 1) / len(blocks))
    mx.clear_cache()  # the pieces that were joined
    return Weights(table, layers, norm, head)


def _joined(modules: list[Any], dtype: mx.Dtype) -> Linear:
    def one(arrays: list[mx.array]) -> mx.array:
        joined = arrays[0] if len(arrays) == 1 else mx.concatenate(arrays)
        return joined.astype(dtype)

    weight = one([module.weight for module in modules]).T
    return (weight, one([module.bias for module in modules])) if "bias" in modules[0] else (weight,)

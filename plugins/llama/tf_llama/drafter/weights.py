"""A drafter's weights, laid out for single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

__all__ = ["Layer", "Linear", "Weights", "linear"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer as ``rows @ weight``: ``weight [in, out]``, ``bias [out]`` or none."""

    weight: mx.array
    bias: mx.array | None = None

    def __call__(self, rows: mx.array) -> mx.array:
        return rows @ self.weight if self.bias is None else mx.addmm(self.bias, rows, self.weight)

    def arrays(self) -> list[mx.array]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]


@dataclass(frozen=True, slots=True)
class Layer:
    """One block: queries, keys and values in one product, gate and up in another.

    Norm weights are ``None`` where they are part of the product that follows.
    """

    attend: Linear
    output: Linear
    gate_up: Linear
    down: Linear
    attend_norm: mx.array | None = None
    mlp_norm: mx.array | None = None

    def arrays(self) -> list[mx.array]:
        linears = (self.attend, self.output, self.gate_up, self.down)
        norms = [norm for norm in (self.attend_norm, self.mlp_norm) if norm is not None]
        return [array for one in linears for array in one.arrays()] + norms


@dataclass(frozen=True, slots=True)
class Weights:
    """All of a drafter.

    Attributes:
        heads, kv_heads, head_size: of the attention.
        table: embeddings ``[ids, D]``.
        layers: the blocks.
        norm: the last norm's weight ``[D]``.
        head: ``[D, ids]``, cut to the ids that may be proposed.
    """

    heads: int
    kv_heads: int
    head_size: int
    table: mx.array
    layers: tuple[Layer, ...]
    norm: mx.array
    head: mx.array

    @property
    def dtype(self) -> mx.Dtype:
        return self.table.dtype

    def arrays(self) -> list[mx.array]:
        return [self.table, self.norm, self.head, *(array for layer in self.layers for array in layer.arrays())]


def linear(modules: list[Any]) -> tuple[mx.array, mx.array | None]:
    """Several linear modules of one input as one: weight ``[out, in]`` and bias ``[out]`` or ``None``."""
    weights = [module.weight for module in modules]
    biases = [module.get("bias") for module in modules]
    weight = weights[0] if len(weights) == 1 else mx.concatenate(weights)
    if all(bias is None for bias in biases):
        return weight, None
    rows = [mx.zeros(w.shape[:1], dtype=w.dtype) if b is None else b for w, b in zip(weights, biases, strict=True)]
    return weight, mx.concatenate(rows)

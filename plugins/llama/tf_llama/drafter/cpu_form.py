"""A drafter on a CPU: float32, and as few operations as there can be.

Each operation costs microseconds there, however small it is, and MLX's own norm and rope are many of them. So norm
weights are part of the product that follows, and a rotation is one complex product.
"""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from tf_llama.drafter.form import shape, taken
from tf_llama.drafter.weights import Layer, Linear, Weights, linear

__all__ = ["CpuForm"]

LOG2_E = math.log2(math.e)

MANY = 2_048
"""Numbers from which a power of two in more operations is faster than MLX's exponential (a third as long, measured)."""


class CpuForm:
    """Float32, few operations."""

    tail = 64
    ahead = 0  # a step takes milliseconds, and reading it back nothing that can be measured

    def __init__(self, model: Any, ids: int) -> None:
        args, inner, tied = model.args, model.model, model.args.tie_word_embeddings
        self._heads, self._kv_heads, self._size = shape(args)
        # Of sums, where a norm has means: the root of the width is in the weights.
        self._eps = args.rms_norm_eps * args.hidden_size
        self._root: float = args.hidden_size**0.5
        self._rope = inner.layers[0].self_attn.rope
        # A row times a transposed head is a quarter faster (measured), and reading a column of it costs nothing.
        head = _own((inner.embed_tokens if tied else model.lm_head).weight[:ids].T)
        table = head.T if tied else _own(inner.embed_tokens.weight)
        norm = _own(inner.norm.weight) * self._root
        mx.eval(head, table, norm)
        inner.embed_tokens = model.lm_head = None
        layers = taken(inner.layers, self._layer)
        self.weights = Weights(self._heads, self._kv_heads, self._size, table, layers, norm, head)

    def _layer(self, block: Any) -> Layer:
        attention, mlp = block.self_attn, block.mlp
        weight, bias = linear([attention.q_proj, attention.k_proj, attention.v_proj])
        order, scale = self._rows()
        return Layer(
            _packed(weight[order], None if bias is None else bias[order], scale, self._norm(block.input_layernorm)),
            _packed(*linear([attention.o_proj])),
            _packed(*linear([mlp.gate_proj, mlp.up_proj]), columns=self._norm(block.post_attention_layernorm)),
            _packed(*linear([mlp.down_proj])),
        )

    def _norm(self, module: Any) -> mx.array:
        weight: mx.array = module.weight
        return _own(weight) * self._root

    def _rows(self) -> tuple[mx.array, mx.array]:
        """The order of the joint product's rows that puts rotated pairs side by side, and each row's scale."""
        heads, size = self._heads + 2 * self._kv_heads, self._size
        order = mx.arange(heads * size).reshape(heads, size)
        turned = heads - self._kv_heads
        pairs = order[:turned].reshape(turned, 2, size // 2).swapaxes(1, 2).reshape(turned, size)
        order = mx.concatenate([pairs, order[turned:]])
        scale = mx.ones([heads, size])
        scale[: self._heads] = size**-0.5
        return order.reshape(-1), scale.reshape(-1)

    def norm(self, rows: mx.array, weight: mx.array | None) -> mx.array:
        normed = rows * mx.rsqrt(mx.sum(rows * rows, axis=-1, keepdims=True) + self._eps)
        return normed if weight is None else normed * weight

    def angles(self, positions: mx.array) -> mx.array:
        # The module itself turns the pairs (1, 0), so whatever scaling it has is in the result.
        half, rows = self._size // 2, positions.shape[0]
        unit = mx.broadcast_to(mx.array([1.0] * half + [0.0] * half), [rows, 1, 1, self._size])
        turned = self._rope(unit, offset=positions).reshape(rows, 2, half).swapaxes(1, 2)
        turned = turned.reshape(rows, 1, self._size).view(mx.complex64)
        still = mx.ones([rows, self._kv_heads, half], dtype=mx.complex64)
        return mx.concatenate([mx.repeat(turned, self._heads + self._kv_heads, axis=1), still], axis=1)

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        turned = (rows.view(mx.complex64).reshape(angles.shape) * angles).view(mx.float32)
        return turned[:, : self._heads], turned[:, self._heads :]

    def softmax(self, scores: mx.array) -> mx.array:
        if scores.size < MANY:
            return mx.softmax(scores, axis=-1)
        powers = mx.power(2.0, (scores - mx.max(scores, axis=-1, keepdims=True)) * LOG2_E)
        return powers / mx.sum(powers, axis=-1, keepdims=True)

    def gate(self, rows: mx.array) -> mx.array:
        gate, up = mx.split(rows, 2, axis=-1)
        if gate.size < MANY:
            return gate * mx.sigmoid(gate) * up
        return gate * up / (1 + mx.power(2.0, gate * -LOG2_E))

    def shares(self, logits: mx.array, tokens: mx.array) -> mx.array:
        # The token's own 1 is in the sum: it is no less, whatever rounds.
        above = logits - mx.take_along_axis(logits, tokens[:, None], axis=-1)
        return 1 / mx.sum(mx.power(math.e, above), axis=-1)


def _packed(
    weight: mx.array, bias: mx.array | None, rows: mx.array | None = None, columns: mx.array | None = None
) -> Linear:
    """A module's ``weight [out, in]`` and ``bias [out]`` with outputs scaled by ``rows`` and inputs by ``columns``."""
    weight = weight.astype(mx.float32)
    if columns is not None:
        weight = weight * columns
    if rows is not None:
        weight = weight * rows[:, None]
        bias = None if bias is None else bias * rows
    return Linear(_own(weight.T), None if bias is None else _own(bias))


def _own(array: mx.array) -> mx.array:
    return mx.contiguous(array.astype(mx.float32))

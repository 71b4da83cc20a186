"""The form of a CPU: few operations, each of which costs microseconds there, and exponentials as powers of two.

Float32 ``exp`` takes 19 ns an element in MLX's Linux wheel and ``power(2, x)`` six (measured).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.rows.form import Products

__all__ = ["CpuForm"]

_LOG2E = math.log2(math.e)


class CpuForm(Products):
    """Rows on a CPU.

    Attention at tile 1 takes all rows of a window in one product, so its proof is that any number of rows agrees with
    one. At a larger tile each product has exactly that many queries.
    """

    pads_writes = False
    sends_every = 0
    chains = False

    def __init__(self, config: LlamaConfig, rope: Any, dtype: mx.Dtype) -> None:
        self._heads, self._kv_heads, self._size = config.heads, config.kv_heads, config.head_dim
        self._rope = rope
        self._dtype = dtype
        self._eps = config.eps
        self._turn = _quarter_turn(config.head_dim)

    def norm(self, rows: mx.array, weight: mx.array) -> mx.array:
        wide = rows.astype(mx.float32)
        scale = mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + self._eps)
        return (wide * scale).astype(self._dtype) * weight

    def angles(self, positions: Sequence[int]) -> mx.array:
        """Cosines and sines ``[2, R, H + 2 K, S]``; queries are scaled for the softmax too, values stay as they are."""
        half, rows = self._size // 2, len(positions)
        # The module itself turns (1, 0), so whatever scaling it has is in the result.
        unit = mx.array([1.0] * half + [0.0] * half)
        turned = self._rope(mx.broadcast_to(unit, (rows, 1, 1, self._size)), offset=mx.array(list(positions)))
        turned = turned.reshape(rows, 1, 2, half).transpose(2, 0, 1, 3)
        turned = mx.concatenate([turned, turned], axis=-1)

        def heads(count: int, angles: mx.array) -> mx.array:
            return mx.broadcast_to(angles, (2, rows, count, self._size))

        still = mx.broadcast_to(mx.array([1.0, 0.0])[:, None, None, None], (2, rows, 1, self._size))
        scaled = turned * (self._size**-0.5 * _LOG2E)
        parts = [heads(self._heads, scaled), heads(self._kv_heads, turned), heads(self._kv_heads, still)]
        return mx.concatenate(parts, axis=2)

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        parts = rows.astype(mx.float32).reshape(angles.shape[1:])
        turned = (parts * angles[0] + (parts @ self._turn) * angles[1]).astype(self._dtype)
        return turned[:, : self._heads], turned[:, self._heads :]

    def gate(self, rows: mx.array) -> mx.array:
        gate, up = mx.split(rows.astype(mx.float32), 2, axis=-1)
        return (gate * up / (mx.power(2.0, gate * -_LOG2E) + 1.0)).astype(self._dtype)

    def mask(self, positions: Sequence[int], keys: int, tile: int, leaves: Sequence[int] = ()) -> mx.array:
        """``[calls, 1, queries a call x group, keys]``: 0 where a row sees, minus infinity elsewhere."""
        padded = [*positions, *[positions[-1]] * (-len(positions) % tile)]
        calls = 1 if tile == 1 else len(padded) // tile
        group = self._heads // self._kv_heads
        at = mx.array([position for position in padded for _ in range(group)])
        seen = mx.arange(keys) <= at[:, None]
        return mx.where(seen, 0.0, -mx.inf).reshape(calls, 1, -1, keys)

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        rows, heads, size = queries.shape
        kv = self._kv_heads
        group = heads // kv
        calls, asked = mask.shape[0], mask.shape[2] // group
        if calls * asked > rows:
            last = mx.broadcast_to(queries[-1:], (calls * asked - rows, heads, size))
            queries = mx.concatenate([queries, last])
        grouped = queries.reshape(calls, asked, kv, group, size)
        grouped = (grouped.swapaxes(1, 2) if asked > 1 else grouped).reshape(calls, kv, asked * group, size)
        scores = (grouped @ cache[:kv, :keys].swapaxes(-1, -2)).astype(mx.float32) + mask
        powers = mx.power(2.0, scores - mx.max(scores, axis=-1, keepdims=True))
        summed = powers.astype(self._dtype) @ cache[kv:, :keys]
        output = (summed / mx.sum(powers, axis=-1, keepdims=True)).astype(self._dtype)
        if asked > 1:
            output = output.reshape(calls, kv, asked, group, size).swapaxes(1, 2)
        output = output.reshape(-1, heads * size)
        return output if calls * asked == rows else output[:rows]


def _quarter_turn(size: int) -> mx.array:
    """``x @ turn`` is ``(-second half, first half)`` of ``x``. One term a sum, so it is exact whatever computes it."""
    half = size // 2
    one = mx.eye(half)
    none = mx.zeros((half, half))
    turn = mx.concatenate([mx.concatenate([none, one], axis=1), mx.concatenate([-one, none], axis=1)])
    mx.eval(turn)
    return turn

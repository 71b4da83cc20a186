"""The form of a GPU: MLX's fused kernels, each in the one variant whose shape the plan fixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig

__all__ = ["GpuForm"]


class GpuForm:
    """Rows on a GPU."""

    pads_writes = True

    def __init__(self, config: LlamaConfig, rope: Any) -> None:
        self._heads, self._kv_heads, self._size = config.heads, config.kv_heads, config.head_dim
        self._rope = rope
        self._eps = config.eps

    def norm(self, rows: mx.array, weight: mx.array) -> mx.array:
        return mx.fast.rms_norm(rows, weight, self._eps)

    def angles(self, positions: Sequence[int]) -> mx.array:
        return mx.array(list(positions))

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        parts = rows.reshape(rows.shape[0], -1, self._size)
        turning = self._heads + self._kv_heads
        # Each row is a batch of its own with its own offset, so one shape of the kernel serves every round.
        turned = self._rope(parts[:, :turning, None], offset=angles)[:, :, 0]
        return turned[:, : self._heads], mx.concatenate([turned[:, self._heads :], parts[:, turning:]], axis=1)

    def gate(self, rows: mx.array) -> mx.array:
        gate, up = mx.split(rows, 2, axis=-1)
        return gate * mx.sigmoid(gate) * up

    def mask(self, positions: Sequence[int], keys: int, tile: int) -> mx.array:
        """``[calls, tile, keys]``."""
        padded = [*positions, *[positions[-1]] * (-len(positions) % tile)]
        return (mx.arange(keys)[None] <= mx.array(padded)[:, None]).reshape(-1, tile, keys)

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        rows, heads, size = queries.shape
        calls, tile, _ = mask.shape
        if calls * tile > rows:
            last = mx.broadcast_to(queries[-1:], (calls * tile - rows, heads, size))
            queries = mx.concatenate([queries, last])
        kv = self._kv_heads
        outputs = [
            mx.fast.scaled_dot_product_attention(
                queries[call * tile : (call + 1) * tile].swapaxes(0, 1)[None],
                cache[None, :kv, :keys],
                cache[None, kv:, :keys],
                scale=size**-0.5,
                mask=mask[call],
            )
            for call in range(calls)
        ]
        output = outputs[0] if calls == 1 else mx.concatenate(outputs, axis=2)
        return output[0].swapaxes(0, 1).reshape(-1, heads * size)[:rows]

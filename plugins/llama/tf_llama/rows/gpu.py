"""The form of a GPU: MLX's fused kernels, each in the one variant whose shape the plan fixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.rows.form import Products

__all__ = ["GpuForm"]


class GpuForm(Products):
    """Rows on a GPU."""

    pads_writes = True
    sends_every = 4
    """The GPU runs the first layers while the later ones are built: 27.4 ms a round, not 28.3 (33B, bf16, H200)."""
    chains = False

    def __init__(self, config: LlamaConfig, rope: Any, dtype: mx.Dtype) -> None:
        self._heads, self._kv_heads, self._size = config.heads, config.kv_heads, config.head_dim
        self._rope = rope
        self._seen, self._unseen = mx.array(0.0, dtype), mx.array(-mx.inf, dtype)
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

    def mask(self, positions: Sequence[int], keys: int, tile: int, leaves: Sequence[int] = ()) -> mx.array:
        """``[calls, tile, keys]``: 0 where a row sees, minus infinity elsewhere.

        MLX would make that of a boolean mask again in every layer: 0.1 ms each at 16,384 keys on an H200.
        """
        padded = [*positions, *[positions[-1]] * (-len(positions) % tile)]
        seen = mx.arange(keys)[None] <= mx.array(padded)[:, None]
        return mx.where(seen, self._seen, self._unseen).reshape(-1, tile, keys)

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
                mask=mask if calls == 1 else mask[call : call + 1],
            )
            for call in range(calls)
        ]
        output = outputs[0] if calls == 1 else mx.concatenate(outputs, axis=2)
        # Squeezed, not indexed: an index is an array to MLX, and taking by it a kernel of 8 us.
        return output.squeeze(0).swapaxes(0, 1).reshape(-1, heads * size)[:rows]

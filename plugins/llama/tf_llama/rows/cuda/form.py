"""The form of CUDA: decode rows through kernels of this project, prompt chunks through MLX's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.rows.cuda import plan
from tf_llama.rows.cuda.kernels import Kernels
from tf_llama.rows.cuda.processor import Processor
from tf_llama.rows.cuda.turns import Turns
from tf_llama.rows.form import Normed, Taps
from tf_llama.rows.gpu import GpuForm
from tf_llama.rows.weights import Linear

__all__ = ["CudaForm", "even", "fits"]

_HEADS_A_GROUP = 8
_SIZES = (64, 128)

_MAJOR, _SHARED = 9, 232_448
"""Least compute capability and bytes of shared memory a block: those of the device that the kernels were measured on.
On others they may be slower than MLX's, and nobody has looked."""


def fits(config: LlamaConfig, dtype: mx.Dtype, device: Processor) -> bool:
    """Whether the kernels compute this shape on this device. What does not fit runs on MLX's own."""
    depths = (config.hidden, config.heads * config.head_dim, config.mlp)
    slices = [plan.slices(depth, device.shared) for depth in depths]
    return even(config, dtype, device) and all(count and count <= device.multiprocessors for count in slices)


def even(config: LlamaConfig, dtype: mx.Dtype, device: Processor) -> bool:
    """What kernels of whole warps and eights ask of a device and of a shape, its depths aside."""
    return (
        device.major >= _MAJOR
        and device.shared >= _SHARED
        and dtype == mx.bfloat16
        and config.head_dim in _SIZES
        and config.heads // config.kv_heads <= _HEADS_A_GROUP
        and config.hidden % 8 == 0
        and config.mlp % 8 == 0
        and not (config.attention_bias or config.mlp_bias)
    )


class CudaForm(GpuForm):
    """Up to 16 rows a product, as they are: a row has the same bits whatever their number, so none is padded."""

    pads_writes = False
    chains = True
    """Queued rounds took 0.03 GiB more where the caches held 4, and 18.3 ms, not 19.3 (33B, H200)."""

    def __init__(self, config: LlamaConfig, rope: Any, dtype: mx.Dtype, device: Processor) -> None:
        super().__init__(config, rope, dtype)
        self._kernels = Kernels(device, config.heads, config.kv_heads, config.head_dim, config.eps)
        self.turns = Turns(rope, config.head_dim)

    def angles(self, positions: Sequence[int]) -> mx.array:
        return self.turns.up_to(max(positions))[mx.array(list(positions))]

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        return self._kernels.rotate(rows, angles)

    def norm(self, rows: mx.array, weight: mx.array) -> Normed:
        return super().norm(rows, weight) if rows.shape[0] > plan.ROWS else self._kernels.norm(rows, weight)

    def linear(self, rows: Normed, weights: Linear) -> mx.array:
        if isinstance(rows, mx.array):
            return super().linear(rows, weights)
        normed, scale = rows
        return self._kernels.linear(normed, scale, weights[0].T)

    def partial(self, rows: mx.array, weights: Linear) -> mx.array:
        if rows.shape[0] > plan.ROWS:
            return super().partial(rows, weights)
        return self._kernels.parts(rows, weights[0].T)

    def add_and_norm(self, rows: mx.array, part: mx.array, weight: mx.array) -> tuple[mx.array, Normed]:
        if part.ndim == rows.ndim:
            return super().add_and_norm(rows, part, weight)
        return self._kernels.add_and_norm(rows, part, weight)

    def gated(self, rows: Normed, weights: Linear) -> tuple[mx.array, Taps]:
        if isinstance(rows, mx.array):
            return super().gated(rows, weights)
        normed, scale = rows
        if self._kernels.slices(weights[0].shape[0]) == 1:
            return self._kernels.gated(normed, scale, weights[0].T), ()
        gate_up = self._kernels.linear(normed, scale, weights[0].T)
        return self.gate(gate_up), (gate_up,)

    def takes_leaves(self, tile: int) -> bool:
        return tile <= plan.ROWS

    def mask(self, positions: Sequence[int], keys: int, tile: int, leaves: Sequence[int] = ()) -> mx.array:
        """The positions and the leaves' places where the kernel attends: it needs no mask and no padding."""
        if tile > plan.ROWS:
            return super().mask(positions, keys, tile, leaves)
        return mx.array([*positions, *leaves], mx.int32)

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        if mask.dtype != mx.int32:
            return super().attend(queries, cache, keys, mask)
        return self._kernels.attend(queries, cache, mask, keys)

    def move(self, layers: list[mx.array], source: int, target: int) -> None:
        mx.async_eval(self._kernels.move(layers, source, target))  # type: ignore[no-untyped-call]

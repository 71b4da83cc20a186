"""The CUDA kernels' functions in MLX's own operations, so that what stands around the kernels runs anywhere."""

from __future__ import annotations

import mlx.core as mx

from tf_llama.rows.cuda import plan
from tf_llama.rows.cuda.kernels import Normed
from tf_llama.rows.cuda.processor import Processor

H200 = Processor(major=9, multiprocessors=132, shared=232_448)


class ReferenceKernels:
    """As ``tf_llama.rows.cuda.kernels.Kernels``, and as strict about what it is given."""

    def __init__(self, device: Processor, heads: int, kv_heads: int, size: int, eps: float) -> None:
        self._device, self._eps = device, eps
        self._heads, self._kv_heads, self._size = heads, kv_heads, size

    def slices(self, depth: int) -> int | None:
        return plan.slices(depth, self._device.shared)

    def linear(self, rows: mx.array, scale: mx.array, weight: mx.array) -> mx.array:
        assert scale.shape == rows.shape[:1]
        assert scale.dtype == mx.float32
        return (self.parts(rows, weight).sum(axis=0) * scale[:, None]).astype(rows.dtype)

    def parts(self, rows: mx.array, weight: mx.array) -> mx.array:
        count = self.slices(weight.shape[1])
        assert count is not None
        assert 1 <= rows.shape[0] <= plan.ROWS
        rows, weight = rows.astype(mx.float32), weight.astype(mx.float32)
        pieces = zip(mx.split(rows, count, axis=1), mx.split(weight, count, axis=1), strict=True)
        return mx.stack([some @ part.T for some, part in pieces])

    def gated(self, rows: mx.array, scale: mx.array, weight: mx.array) -> mx.array:
        assert self.slices(weight.shape[1]) == 1
        gate, up = mx.split(self.parts(rows, weight)[0] * scale[:, None], 2, axis=-1)
        return (gate * mx.sigmoid(gate) * up).astype(rows.dtype)

    def norm(self, rows: mx.array, weight: mx.array) -> Normed:
        wide = rows.astype(mx.float32)
        return rows * weight, mx.rsqrt(mx.mean(wide * wide, axis=-1) + self._eps)

    def add_and_norm(self, rows: mx.array, parts: mx.array, weight: mx.array) -> tuple[mx.array, Normed]:
        assert parts.shape[1:] == rows.shape
        summed = (rows.astype(mx.float32) + parts.sum(axis=0)).astype(rows.dtype)
        return summed, self.norm(summed, weight)

    def rotate(self, asked: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        assert angles.shape == (asked.shape[0], self._size)
        assert angles.dtype == mx.float32
        heads = asked.astype(mx.float32).reshape(asked.shape[0], -1, self._size)
        turning = self._heads + self._kv_heads
        first, second = mx.split(heads[:, :turning], 2, axis=-1)
        cosine, sine = (part[:, None] for part in mx.split(angles, 2, axis=-1))
        turned = mx.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
        found = mx.concatenate([turned, heads[:, turning:]], axis=1).astype(asked.dtype)
        return found[:, : self._heads], found[:, self._heads :]

    def attend(self, queries: mx.array, cache: mx.array, positions: mx.array, keys: int) -> mx.array:
        assert positions.dtype == mx.int32
        rows, numbers = queries.shape[0], positions.tolist()
        places, leaves = numbers[:rows], numbers[rows:]
        own = [*places[: rows - len(leaves)], *leaves]
        assert rows <= plan.ROWS
        assert max(places) < keys
        outputs = []
        for row, place in enumerate(places):
            grouped = queries[row].astype(mx.float32).reshape(self._kv_heads, -1, self._size)
            seen = mx.take(cache, mx.array([*range(place), own[row]]), axis=1).astype(mx.float32)
            scores = grouped @ seen[: self._kv_heads].swapaxes(-1, -2) * self._size**-0.5
            outputs.append((mx.softmax(scores, axis=-1) @ seen[self._kv_heads :]).reshape(-1))
        return mx.stack(outputs).astype(queries.dtype)

    def move(self, layers: list[mx.array], source: int, target: int) -> mx.array:
        for layer in layers:
            layer[:, target] = layer[:, source]
        return mx.array([1])

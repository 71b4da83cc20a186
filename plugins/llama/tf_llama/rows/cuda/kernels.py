"""The CUDA kernels beside this as functions of MLX arrays."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_llama.rows.cuda import plan
from tf_llama.rows.cuda.compiling import Kernel, kernel, run
from tf_llama.rows.cuda.mailbox import number
from tf_llama.rows.cuda.processor import Processor

__all__ = ["Kernels", "Normed"]

Normed = tuple[mx.array, mx.array]
"""A norm in two: bfloat16 ``[R, D]``, the rows times its weight; and float32 ``[R]``, by which their products are then
multiplied. So nobody has to know a whole row's squares before he writes a part of it."""

_BLOCK = 256


class Kernels:
    """Calls of the kernels on one device.

    ``R`` is rows, at most ``plan.ROWS`` in products and attention; arrays are bfloat16 unless said, and contiguous.

    Args:
        device: what they run on.
        heads: query heads.
        kv_heads: key heads.
        size: numbers a head has, 64 or 128.
        eps: of the RMS norms.
    """

    def __init__(self, device: Processor, heads: int, kv_heads: int, size: int, eps: float) -> None:
        self._device = device
        self._heads, self._kv_heads, self._size = heads, kv_heads, size
        self._eps = number(eps)

    def slices(self, depth: int) -> int:
        """Parts that a product of this depth is summed in; 0 where none fits."""
        return plan.slices(depth, self._device.shared) or 0

    def linear(self, rows: mx.array, scale: mx.array, weight: mx.array) -> mx.array:
        """``rows [R, K]`` times ``weight [N, K]`` transposed times float32 ``scale [R]``, ``[R, N]``."""
        outputs, depth = weight.shape
        if self.slices(depth) == 1:
            return self._product(rows, scale, weight, "PLAIN", (rows.shape[0], outputs), mx.bfloat16)
        parts = self.parts(rows, weight)
        arguments = "<N, SLICES>(parts, scale, y, parts_shape[1])"
        call = kernel("between.cuh", "add_slices", ("parts", "scale"), ("y",), arguments)
        template = {"N": outputs, "SLICES": parts.shape[0]}
        return self._each(call, [parts, scale], template, [parts.shape[1:]], parts[0].size)[0]

    def parts(self, rows: mx.array, weight: mx.array) -> mx.array:
        """The same without a scale, in float32 and not summed yet, ``[slices, R, N]``."""
        count = self.slices(weight.shape[1])
        return self._product(rows, None, weight, "PARTIAL", (count, rows.shape[0], weight.shape[0]), mx.float32)

    def gated(self, rows: mx.array, scale: mx.array, weight: mx.array) -> mx.array:
        """``silu(gate) * up``, ``[R, N / 2]``, of gate over up ``[N, K]``; the depth must need one slice."""
        return self._product(rows, scale, weight, "GATED", (rows.shape[0], weight.shape[0] // 2), mx.bfloat16)

    def norm(self, rows: mx.array, weight: mx.array) -> Normed:
        """The RMS norm of ``rows [R, D]``."""
        call = "<D, 0, THREADS>(rows, nullptr, weight, eps, sum, normed, scale, rows_shape[0])"
        _, normed, scale = self._normed(call, ["rows", "weight", "eps"], [rows, weight, self._eps], {}, "_norm")
        return normed, scale

    def add_and_norm(self, rows: mx.array, parts: mx.array, weight: mx.array) -> tuple[mx.array, Normed]:
        """``rows [R, D]`` and ``parts [slices, R, D]`` summed, and the sum's RMS norm."""
        call = "<D, SLICES, THREADS>(rows, parts, weight, eps, sum, normed, scale, rows_shape[0])"
        given = [rows, parts, weight, self._eps]
        template = {"SLICES": parts.shape[0]}
        summed, normed, scale = self._normed(call, ["rows", "parts", "weight", "eps"], given, template)
        return summed, (normed, scale)

    def rotate(self, asked: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        """``asked [R, (heads + 2 kv heads) size]`` by heads, queries and keys turned by float32 ``angles [R, size]``.

        Returns:
            Queries ``[R, heads, size]``; keys, then values ``[R, 2 kv heads, size]``.
        """
        rows = asked.shape[0]
        arguments = "<HEADS, KV, SIZE>(asked, angles, queries, written, asked_shape[0])"
        call = kernel("between.cuh", "rotate", ("asked", "angles"), ("queries", "written"), arguments)
        shapes = [(rows, self._heads, self._size), (rows, 2 * self._kv_heads, self._size)]
        queries, written = self._each(call, [asked, angles], self._shape(), shapes, asked.size // 2)
        return queries, written

    def attend(self, queries: mx.array, cache: mx.array, positions: mx.array, keys: int) -> mx.array:
        """``[R, heads size]`` of ``queries [R, heads, size]`` over keys of ``cache [2 kv heads, capacity, size]``.

        Args:
            queries: turned.
            cache: keys, then values.
            positions: int32 ``[R + leaves]``: a row sees the keys up to its own position. Then where the keys of the
                leaves are, the last rows; what the cache has at their positions they do not see.
            keys: more than any position.
        """
        rows, splits = queries.shape[0], plan.splits(keys)
        leaves = positions.shape[0] - rows
        inputs = ("queries", "cache", "positions")
        counts = "queries_shape[0], positions_shape[0] - queries_shape[0], cache_shape[1]"
        arguments = f"<HEADS, KV, SIZE>(queries, cache, positions, sums, weights, {counts})"
        split = kernel("attention.cuh", "attend_split", inputs, ("sums", "weights"), arguments)
        threads = self._heads // self._kv_heads * 32
        shapes = [(splits, rows, self._heads, self._size), (splits, rows, self._heads, 2)]
        grid = (self._kv_heads * threads, splits + leaves)
        given = [queries, cache, positions]
        sums, weights = run(split, given, self._shape(), grid, threads, shapes, [mx.float32] * 2)
        arguments = "<HEADS, SIZE>(sums, weights, positions, y, sums_shape[1])"
        total = kernel("attention.cuh", "attend_sum", ("sums", "weights", "positions"), ("y",), arguments)
        template = {"HEADS": self._heads, "SIZE": self._size}
        threads = self._size // 4
        shape = (rows, self._heads * self._size)
        grid = (self._heads * threads, rows)
        return run(total, [sums, weights, positions], template, grid, threads, [shape], [mx.bfloat16])[0]

    def move(self, layers: list[mx.array], source: int, target: int) -> mx.array:
        """Put the row at ``source`` of every cache ``[2 kv heads, capacity, size]`` at ``target``, in place.

        Returns:
            What is computed once that is done.
        """
        names = [f"layer{at}" for at in range(len(layers))]
        arguments = f"<{len(names)}, LANES, SIZE>({{{{{', '.join(names)}}}}}, places, done, layer0_shape[1])"
        call = kernel("between.cuh", "move_row", ("places", *names), ("done",), arguments, f"_{len(names)}")
        template = {"LANES": 2 * self._kv_heads, "SIZE": self._size}
        given = [mx.array([source, target], mx.int32), *layers]
        return run(call, given, template, (len(names) * _BLOCK, 1), _BLOCK, [(1,)], [mx.int32])[0]

    def _product(
        self,
        rows: mx.array,
        scale: mx.array | None,
        weight: mx.array,
        ending: str,
        shape: tuple[int, ...],
        dtype: mx.Dtype,
    ) -> mx.array:
        outputs, depth = weight.shape
        count = shape[0] if ending == "PARTIAL" else 1
        by = "nullptr" if scale is None else "scale"
        arguments = f"<N, K, SLICES, {plan.RUN}, {plan.AHEAD}, ::tf::{ending}>(x, w, {by}, y, x_shape[0])"
        names = ("x", "w") if scale is None else ("x", "w", "scale")
        memory = plan.held(depth // count)
        call = kernel("linear.cuh", "linear_rows", names, ("y",), arguments, f"_{ending.lower()}", memory)
        blocks = self._device.multiprocessors // count * count
        template = {"N": outputs, "K": depth, "SLICES": count}
        given = [rows, weight] if scale is None else [rows, weight, scale]
        return run(call, given, template, (blocks * _BLOCK, 1), _BLOCK, [shape], [dtype])[0]

    def _normed(
        self, arguments: str, names: list[str], given: list[mx.array], template: dict[str, int], more: str = ""
    ) -> list[mx.array]:
        """A block a row; the first array given is the rows."""
        count, width = given[0].shape
        threads = min(1024, -(-width // 8 // 32) * 32)
        call = kernel("between.cuh", "add_and_norm", tuple(names), ("sum", "normed", "scale"), arguments, more)
        shapes: list[tuple[int, ...]] = [(count, width), (count, width), (count,)]
        dtypes = [mx.bfloat16, mx.bfloat16, mx.float32]
        template = {"D": width, "THREADS": threads} | template
        return run(call, given, template, (count * threads, 1), threads, shapes, dtypes)

    def _each(
        self,
        call: Kernel,
        inputs: list[mx.array],
        template: dict[str, int],
        shapes: Sequence[tuple[int, ...]],
        threads: int,
    ) -> list[mx.array]:
        """A thread for each of so many numbers."""
        return run(call, inputs, template, (threads, 1), _BLOCK, shapes, [mx.bfloat16] * len(shapes))

    def _shape(self) -> dict[str, int]:
        return {"HEADS": self._heads, "KV": self._kv_heads, "SIZE": self._size}

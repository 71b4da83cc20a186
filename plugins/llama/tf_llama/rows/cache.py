"""One stream's keys and values, in a layout that never changes, and copies of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

__all__ = ["CacheOverflow", "Layout", "LlamaCache", "LlamaState"]


class CacheOverflow(IndexError):
    """A write past a cache's capacity. MLX would write it into the next head and say nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a position takes.

    Attributes:
        layers: decoder layers.
        kv_heads: key heads, and as many value heads.
        head_dim: numbers a head has.
        dtype: of keys and values.
    """

    layers: int
    kv_heads: int
    head_dim: int
    dtype: mx.Dtype

    def nbytes(self, positions: int) -> int:
        """Bytes of all layers' keys and values."""
        return self.layers * 2 * self.kv_heads * self.head_dim * self.dtype.size * positions


class LlamaCache:
    """Keys and values of one stream.

    Args:
        layout: what a position takes.
        capacity: positions that will ever fit, padding rows included.
        held: positions that there is memory for at first; all of them by default.

    Attributes:
        length: valid positions. Rows past it are stale but finite.
        layers: one array a layer, ``[2 kv heads, positions held, head size]``, keys first: one write a layer serves
            both.
        addresses: where those lie, for kernels that ask so; ``None`` once MLX has written one, maybe elsewhere.
    """

    def __init__(self, layout: Layout, capacity: int, held: int | None = None) -> None:
        self.length = 0
        self.layout = layout
        self.capacity = capacity
        self.addresses: mx.array | None = None
        self.layers = [self._empty(capacity if held is None else min(held, capacity)) for _ in range(layout.layers)]
        mx.eval(self.layers)

    @property
    def held(self) -> int:
        """Positions that there is memory for."""
        return self.layers[0].shape[1]

    def hold(self, positions: int) -> None:
        """Have memory for so many positions, up to the capacity.

        A row has the same bits at every length that the plan has, which is what the probe proves. One layer is copied
        after another, so that no more is held at any time than the capacity takes.
        """
        positions = min(positions, self.capacity)
        if positions <= self.held:
            return
        self.addresses = None
        start = mx.array([0])
        for at, layer in enumerate(self.layers):
            self.layers[at] = mx.slice_update(self._empty(positions), layer, start, (1,))
            del layer
            mx.eval(self.layers[at])

    def _empty(self, positions: int) -> mx.array:
        return mx.zeros((2 * self.layout.kv_heads, positions, self.layout.head_dim), dtype=self.layout.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(layer.nbytes for layer in self.layers)

    def fits(self, start: int, rows: int) -> None:
        """``CacheOverflow`` unless ``rows`` rows from ``start`` on fit what is held."""
        if start < 0 or start + rows > self.held:
            raise CacheOverflow(f"{rows} rows from position {start} on do not fit a cache of {self.held}")

    def write(self, layer: int, rows: mx.array, start: int) -> mx.array:
        """Put ``rows [n, 2 kv heads, head size]`` at position ``start``; ``fits`` was asked before.

        In place where no view of the layer's array is held.
        """
        # A start that is known takes one kernel on a GPU, 2 us; one read from an array takes three, 35 us.
        self.addresses = None
        held = self.layers[layer]
        held[:, start : start + rows.shape[0]] = rows.swapaxes(0, 1)
        return held


@dataclass(frozen=True, slots=True)
class LlamaState:
    """A kept prompt state.

    Attributes:
        rows: ``[layers, 2 kv heads, length, head size]``, a contiguous copy of its own: a live view of a cache would
            force a copy of the whole cache at the next write.
    """

    rows: mx.array

    @property
    def length(self) -> int:
        """Positions held."""
        return self.rows.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes

    def arrays(self) -> dict[str, mx.array]:
        """The state as named arrays."""
        return {"rows": self.rows}

    @classmethod
    def copy(cls, cache: LlamaCache, tokens: int) -> LlamaState:
        """The first ``tokens`` positions of a cache, evaluated."""
        if not 0 < tokens <= cache.length:
            raise ValueError(f"{tokens} positions of a cache that holds {cache.length}")
        rows = mx.stack([layer[:, :tokens] for layer in cache.layers])
        mx.eval(rows)
        return cls(rows)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, mx.array], layout: Layout) -> LlamaState:
        """A state read from a file; ``ValueError`` when it is not of this model."""
        rows = arrays.get("rows")
        if rows is None or len(arrays) != 1:
            raise ValueError(f"a kept state has one array, rows, and this one has {', '.join(arrays) or 'none'}")
        wanted = (layout.layers, 2 * layout.kv_heads, layout.head_dim)
        found = (*rows.shape[:2], *rows.shape[3:])
        if rows.ndim != 4 or rows.shape[2] < 1 or found != wanted or rows.dtype != layout.dtype:
            raise ValueError(f"a kept state of shape {list(rows.shape)} in {rows.dtype} is of another model")
        mx.eval(rows)
        return cls(rows)

    def restore(self, cache: LlamaCache) -> None:
        """Copy the state into a fresh cache's layout."""
        if cache.length:
            raise ValueError(f"a state is restored into a fresh cache, and this one holds {cache.length} positions")
        cache.fits(0, self.length)
        cache.addresses = None
        start = mx.array([0])
        for layer in range(len(cache.layers)):
            cache.layers[layer] = mx.slice_update(cache.layers[layer], self.rows[layer], start, (1,))
            mx.eval(cache.layers[layer])
        cache.length = self.length

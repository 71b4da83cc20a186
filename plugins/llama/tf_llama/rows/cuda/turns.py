"""The rope's angles, one row a position."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

__all__ = ["Turns"]

_FIRST = 4_096


class Turns:
    """Cosines, then sines, of every position's angles; computed once, as far as they were asked for.

    Args:
        rope: mlx-lm's module, whatever scaling it has.
        size: numbers of a head.
    """

    def __init__(self, rope: Any, size: int) -> None:
        self._rope, self._size = rope, size
        self._table = mx.zeros((0, size))

    def up_to(self, position: int) -> mx.array:
        """Float32 ``[positions, size]``, more positions than ``position``: 16 MiB for 32,768 of heads of 128."""
        known = self._table.shape[0]
        if position >= known:
            count = max(_FIRST, 1 << position.bit_length())
            self._table = mx.concatenate([self._table, self._turned(known, count)])
            mx.eval(self._table)
        return self._table

    def _turned(self, begin: int, end: int) -> mx.array:
        # The rope itself turns (1, 0), so whatever scaling it has is in the result. Each in memory of its own: MLX
        # turns a broadcast one by the first offset alone (measured).
        count, half = end - begin, self._size // 2
        unit = mx.concatenate([mx.ones((count, half)), mx.zeros((count, half))], axis=1)
        found: mx.array = self._rope(unit.reshape(count, 1, 1, self._size), offset=mx.arange(begin, end))
        return found.reshape(count, self._size)

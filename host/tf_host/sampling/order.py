"""The highest values of a row, in one order whatever sorts them."""

from __future__ import annotations

import mlx.core as mx

_IDS = 1 << 24


class Ranking:
    """Ranks the ids of a row: higher values first, equal values by the lower id.

    A value and its id share one 64-bit key, so no two keys are equal and a partial sort has one possible answer.

    Args:
        vocab: ids in a row, below 2^24.
    """

    def __init__(self, vocab: int) -> None:
        if not 0 < vocab < _IDS:
            raise ValueError(f"a vocabulary of {vocab} is not within 1 to {_IDS - 1}")
        self._vocab = vocab
        self._reversed_ids = mx.arange(vocab - 1, -1, -1, dtype=mx.int64)
        mx.eval(self._reversed_ids)

    def highest(self, values: mx.array, count: int) -> tuple[mx.array, mx.array]:
        """The ``count`` highest of ``values`` ``[vocab]`` float32, best first: values and ids, ``[count]`` each."""
        keys = self._keys(values)
        if count < self._vocab:
            keys = mx.partition(keys, self._vocab - count)[self._vocab - count :]
        ids = (self._vocab - 1) - (mx.sort(keys)[::-1] & (_IDS - 1))
        return values[ids], ids

    def _keys(self, values: mx.array) -> mx.array:
        bits = (values + 0.0).view(mx.int32)  # + 0.0: minus zero equals zero, its bits do not
        ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # floats order as integers once negative ones are flipped
        return ordered.astype(mx.int64) * _IDS + self._reversed_ids

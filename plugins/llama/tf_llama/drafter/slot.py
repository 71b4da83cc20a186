"""One stream's keys and values in the drafter, and the tokens that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

__all__ = ["ROUND", "Layout", "Slot"]

ROUND = 64
"""Positions that a cache's length is rounded up to."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a slot's arrays are.

    Attributes:
        arrays: how many: one a layer, or one for all of them.
        lanes: keys' heads and values' heads in each.
        size: numbers a head has.
        tail: positions of a tail.
        dtype: of all of them.
    """

    arrays: int
    lanes: int
    size: int
    tail: int
    dtype: mx.Dtype

    def nbytes(self, capacity: int) -> int:
        """Bytes of a slot for ``capacity`` positions."""
        return self.arrays * self.lanes * self.size * (_rounded(capacity) + self.tail) * self.dtype.size


class Slot:
    """A cache in two parts: what was read for good, and a short tail of recent positions.

    A chain of steps only writes the tail, a few kilobytes a layer, and reads the rest as it is. So steps can be sent
    off one by one: a step that wrote the cache itself would copy all of it while the step before still reads it.

    Attributes:
        tokens: ids whose rows are in the cache.
        recent: ids whose rows are in the tail, drafts that may not stand included.
        cache: arrays ``[lanes, capacity, head size]``, keys then values of a layer.
        tail: arrays ``[lanes, tail, head size]``.
    """

    def __init__(self, layout: Layout, capacity: int) -> None:
        self.capacity = _rounded(capacity)
        self.tokens: list[int] = []
        self.recent: list[int] = []
        self._sure = 0
        lanes, size, dtype, count = layout.lanes, layout.size, layout.dtype, range(layout.arrays)
        self.cache = [mx.zeros([lanes, self.capacity, size], dtype=dtype) for _ in count]
        self.tail = [mx.zeros([lanes, layout.tail, size], dtype=dtype) for _ in count]
        mx.eval(self.cache, self.tail)

    @property
    def nbytes(self) -> int:
        """Bytes of cache and tail."""
        return sum(array.nbytes for array in (*self.cache, *self.tail))

    @property
    def length(self) -> int:
        """Positions that are held."""
        return len(self.tokens) + len(self.recent)

    def settle(self, context: Sequence[int]) -> list[int]:
        """Drop rows of drafts that did not stand; what is left to read of ``context``, the pending token at least."""
        base = len(self.tokens)
        stands, most = self._sure, min(len(self.recent), len(context) - 1 - base)
        while stands < most and self.recent[stands] == context[base + stands]:
            stands += 1
        del self.recent[min(stands, most) :]
        self._sure = len(self.recent)
        return list(context[self.length :])

    def wrote(self, tail: list[mx.array], tokens: Sequence[int], sure: int) -> None:
        """The tail now ends with rows of ``tokens``, the first ``sure`` of which are of the context."""
        self.tail = tail
        self._sure = len(self.recent) + sure
        self.recent.extend(tokens)

    def flush(self) -> None:
        """Move the tail into the cache, in place: nothing that reads the cache may be under way."""
        self.put(self.tail, self.recent)
        mx.eval(self.cache)
        self.clear_tail()

    def put(self, rows: Sequence[mx.array], tokens: Sequence[int]) -> None:
        """Write ``tokens``' rows, the first of each array ``[lanes, rows, head size]``, once the cache is evaluated."""
        start, count = len(self.tokens), len(tokens)
        if not count:
            return
        if start + count > self.capacity:
            # An update past the end would overwrite the next head.
            raise ValueError(f"{start + count} positions in a drafter cache of {self.capacity}")
        for cache, fresh in zip(self.cache, rows, strict=True):
            cache[:, start : start + count] = fresh[:, :count]
        self.tokens += tokens

    def clear_tail(self) -> None:
        """Forget the tail's rows."""
        self.recent = []
        self._sure = 0

    def shared(self, context: Sequence[int]) -> int:
        """How many of the positions held begin ``context``, its last token left out."""
        most = len(context) - 1
        common = _common(self.tokens, context, most)
        if common < len(self.tokens):
            return common
        return common + _common(self.recent, context[common:most], most - common)

    def cut(self, length: int) -> None:
        """Keep the first ``length`` positions."""
        self.recent = self.recent[: max(0, length - len(self.tokens))]
        self.tokens = self.tokens[:length]
        self._sure = len(self.recent)

    def move(self, old: Slot) -> None:
        """Take over an old slot's positions into this fresh, longer one; frees the old a layer at a time."""
        self.tokens, self.recent, self._sure = old.tokens, old.recent, len(old.recent)
        rows = len(self.tokens)
        self.tail = old.tail
        for at, cache in enumerate(self.cache):
            cache[:, :rows] = old.cache[at][:, :rows]
            mx.eval(cache)
            old.cache[at] = mx.zeros([0])


def _rounded(capacity: int) -> int:
    return -(-capacity // ROUND) * ROUND


def _common(held: Sequence[int], context: Sequence[int], most: int) -> int:
    """Length of the common prefix, at most ``most``; by halves, so that long ones are compared a slice at a time."""
    low, high = 0, min(len(held), most)
    while low < high:
        half = (low + high + 1) // 2
        if list(held[low:half]) == list(context[low:half]):
            low = half
        else:
            high = half - 1
    return low

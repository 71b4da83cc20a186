"""Rows of one stream in a forward."""

from __future__ import annotations

from dataclasses import dataclass

from tf_llama.rows.cache import LlamaCache

__all__ = ["Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive rows of one stream in a forward, from its cache's length on; behind them its leaves.

    Attributes:
        cache: the stream's cache.
        rows: how many, leaves included.
        keys: length of the key view that they attend over.
        leaves: for each leaf, the row before it: 0 for one that stands where the second row does.
    """

    cache: LlamaCache
    rows: int
    keys: int
    leaves: tuple[int, ...] = ()

    @property
    def positions(self) -> list[int]:
        """Absolute positions of the rows."""
        start, row = self.cache.length, self.rows - len(self.leaves)
        return [*range(start, start + row), *(start + 1 + before for before in self.leaves)]

    @property
    def written(self) -> range:
        """Where the cache holds the rows."""
        return range(self.cache.length, self.cache.length + self.rows)

    @property
    def places(self) -> range:
        """Where the cache holds the leaves."""
        end = self.cache.length + self.rows
        return range(end - len(self.leaves), end)

"""Decayed means of measured seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DECAY", "OUTLIER", "STALE", "Mean", "monotone", "within"]

DECAY = 0.2
"""How far a measurement moves a mean that is fed every round."""

OUTLIER = 1.5
"""A measurement counts as at most this many times what was expected: one pause of the machine moves little, and a
lasting change still gets through within a dozen rounds."""

STALE = 64
"""Rounds after which what was measured may no longer hold: the machine may have been busy then."""

_MISSED = 4


@dataclass(slots=True)
class Mean:
    """A decayed mean that trusts itself less the longer it was not fed.

    A measurement that comes ``n`` rounds after the last moves the mean by ``1 - 0.8^n`` of the difference, ``n``
    counted up to 4: by 0.2 when it is fed every round, by 0.59 when it is seldom fed.
    """

    value: float
    at: int
    weight: float = 1.0

    def gain(self, now: int) -> float:
        """The share of the next difference that moves the mean, at round ``now``."""
        return 1.0 - (1.0 - DECAY) ** min(max(now - self.at, 1), _MISSED)

    def feed(self, value: float, now: int) -> None:
        """One measurement at round ``now``."""
        self.value += self.gain(now) * (value - self.value)
        self.at = now
        self.weight = min(self.weight + 1.0, 1.0 / DECAY)


def monotone(points: Mapping[int, tuple[float, float]]) -> tuple[list[int], list[float]]:
    """Keys ascending and values that never fall, from ``{key: (value, weight)}``.

    Neighbours that contradict that order are pooled into their weighted mean.
    """
    keys = sorted(points)
    pools: list[tuple[float, float, int]] = []
    for value, weight in (points[key] for key in keys):
        size = 1
        while pools and pools[-1][0] > value:
            before, heavy, wide = pools.pop()
            value = (value * weight + before * heavy) / (weight + heavy)
            weight, size = weight + heavy, size + wide
        pools.append((value, weight, size))
    return keys, [value for value, _, size in pools for _ in range(size)]


def within(curve: tuple[list[int], list[float]], key: float) -> float:
    """The curve at ``key``: linear between neighbours, outside them that of the nearest; 0 for no curve."""
    keys, values = curve
    if not keys:
        return 0.0
    after = bisect_left(keys, key)
    if after == len(keys):
        return values[-1]
    if after == 0 or keys[after] == key:
        return values[after]
    low, high = keys[after - 1], keys[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (key - low) / (high - low)

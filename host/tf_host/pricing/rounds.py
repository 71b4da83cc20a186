"""What a round costs: a measured mean a padded width, and what attention adds for the keys in view."""

from __future__ import annotations

from tf_host.pricing.means import OUTLIER, Mean, monotone, within
from tf_host.pricing.plain import Measured, Plain
from tf_plugins.rows import RowPlan

__all__ = ["RoundCosts"]

# The slope learns only from rounds whose keys are this far from their width's mean, that is, after a bucket edge.
_APART = 64
_SLOPE_DECAY = 0.02


class RoundCosts:
    """Seconds of a round by padded rows and keys in view, from rounds that one stream had to itself.

        seconds(rows, bucket) = base[padded(rows)] + slope * keys,    keys = bucket * ceil(rows / tile)

    A window takes ``ceil(rows / tile)`` attention calls, each over its bucket. ``base`` is a decayed mean for each
    padded width that was timed; the slope, seconds a key and call, is common to all and comes from the rounds around
    bucket edges, compared with their own width's mean. Between timed widths the base is interpolated, outside them it
    is that of the nearest, and a width that was timed cheaper than a narrower one is pooled with it. A straight line
    is nowhere assumed: bands make steps. A width that is stale moves with the plain round (``plain.Stamp``).

    Args:
        plan: the served row plan.
        plain: is told of plain rounds; without it nothing gets stale.
    """

    def __init__(self, plan: RowPlan, plain: Plain | None = None) -> None:
        self._plan = plan
        self._plain = plain or Plain()
        self._now = 0
        self._lent: dict[int, float] = {}
        self._seconds: dict[int, Measured] = {}
        self._keys: dict[int, Mean] = {}
        self._spread = self._tilt = 0.0
        self._bases: list[float] | None = None

    @property
    def widest(self) -> int:
        """Padded rows of the widest round timed; 0 when none was."""
        return max((*self._lent, *self._seconds), default=0)

    def age(self, rows: int) -> int | None:
        """Rounds since that padded width was last timed; ``None`` when it never was."""
        mean = self._seconds.get(self._plan.padded(rows))
        return None if mean is None else self._now - mean.at

    def record(self, rows: int, bucket: int, seconds: float, *, queued: bool = False) -> None:
        """A stream had a round to itself: its real rows, the bucket it attended over, wall seconds."""
        self._now += 1
        width, keys = self._plan.padded(rows), self._in_view(rows, bucket)
        mean, mean_keys = self._seconds.get(width), self._keys.get(width)
        aside = 0.0 if mean_keys is None else keys - mean_keys.value
        if abs(aside) < _APART and (expected := self.seconds(rows, bucket)) > 0:
            seconds = min(seconds, OUTLIER * expected)
        if mean is None or mean_keys is None:
            self._seconds[width] = Measured(self._plain, seconds, self._now)
            self._keys[width] = Mean(keys, self._now)
        else:
            if abs(aside) >= _APART:
                self._spread += aside * aside - _SLOPE_DECAY * self._spread
                self._tilt += aside * (seconds - mean.value) - _SLOPE_DECAY * self._tilt
            mean.feed(seconds, self._now)
            mean_keys.feed(keys, self._now)
        if rows == 1:
            # Afterwards, or the round would count twice in its own width.
            self._plain.feed(seconds, queued=queued)
            self._seconds[width].stamp()
        self._bases = None

    def lend(self, rows: int, bucket: int, seconds: float) -> None:
        """A shared round of one forward: it stands in past the widest that a stream alone had, and feeds nothing."""
        width = self._plan.padded(rows)
        self._lent[width] = max(0.0, seconds - self._slope * self._in_view(rows, bucket))
        self._bases = None

    def seconds(self, rows: int, bucket: int) -> float:
        """Expected seconds of a round of one window; 0 while nothing was ever timed."""
        return self.by_drafts(1, rows - 1, bucket)[-1]

    def by_drafts(self, streams: int, drafts: int, bucket: float) -> list[float]:
        """Expected seconds of a round of ``streams`` windows with 0 to ``drafts`` drafts in it, at one bucket.

        More rows than a forward holds are split into several.
        """
        top, tile, keys, bases = self._plan.top, self._plan.tile, self._slope * bucket, self._bases or self._fit()
        return [
            (rows // top) * bases[top] + bases[rows % top] + keys * max(streams, -(-rows // tile))
            for rows in range(streams, streams + drafts + 1)
        ]

    @property
    def _slope(self) -> float:
        return max(0.0, self._tilt / self._spread) if self._spread else 0.0

    def _in_view(self, rows: int, bucket: int) -> float:
        return float(bucket * -(-rows // self._plan.tile))

    def _fit(self) -> list[float]:
        """Bases by real rows, 0 to the plan's top; that of no rows is 0."""
        points = {
            timed: (max(0.0, mean.value - self._slope * self._keys[timed].value), mean.weight)
            for timed, mean in self._seconds.items()
        }
        points |= {lent: (base, 1.0) for lent, base in self._lent.items() if lent > max(points, default=0)}
        curve = monotone(points)
        self._bases = [0.0, *(within(curve, self._plan.padded(rows)) for rows in range(1, self._plan.top + 1))]
        return self._bases

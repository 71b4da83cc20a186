"""What a round costs: a measured mean a padded width, and what attention adds for the keys in view."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from tf_host.pricing.means import DECAY, OUTLIER, Mean, monotone, within
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
    is nowhere assumed: bands make steps.

    Load-time timings give the widths' proportions: until a width is timed while serving, its seconds are the load's
    times what serving was found to take more (draws, read-back, the host).

    Args:
        plan: the served row plan.
    """

    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self._now = 0
        self._seeds: dict[int, float] = {}
        self._drift = 1.0
        self._seconds: dict[int, Mean] = {}
        self._keys: dict[int, Mean] = {}
        self._spread = self._tilt = 0.0
        self._curve: tuple[list[int], list[float]] | None = None

    @property
    def widest(self) -> int:
        """Padded rows of the widest round timed, at load or since; 0 when none was."""
        return max((*self._seeds, *self._seconds), default=0)

    def age(self, rows: int) -> int | None:
        """Rounds since that padded width was last timed while serving; ``None`` when it never was."""
        mean = self._seconds.get(self._plan.padded(rows))
        return None if mean is None else self._now - mean.at

    def seed(self, timings: Iterable[tuple[int, int, float]]) -> None:
        """Start from load-time timings ``(rows, bucket, seconds)``: some widths, two buckets or more for the slope."""
        points: dict[int, list[tuple[float, float]]] = {}
        for rows, bucket, seconds in timings:
            points.setdefault(self._plan.padded(rows), []).append((self._in_view(rows, bucket), seconds))
        centres = {w: (fmean(keys for keys, _ in of), fmean(seconds for _, seconds in of)) for w, of in points.items()}
        for width, of in points.items():
            for keys, seconds in of:
                self._spread += (keys - centres[width][0]) ** 2
                self._tilt += (keys - centres[width][0]) * (seconds - centres[width][1])
        self._seeds = {width: max(0.0, seconds - self._slope * keys) for width, (keys, seconds) in centres.items()}
        self._curve = None

    def record(self, rows: int, bucket: int, seconds: float) -> None:
        """A stream had a round to itself: its real rows, the bucket it attended over, wall seconds."""
        self._now += 1
        width, keys = self._plan.padded(rows), self._in_view(rows, bucket)
        if (expected := self.seconds(rows, bucket)) > 0:
            seconds = min(seconds, OUTLIER * expected)
        if self._seeds:
            seeded = within(monotone({w: (s, 1.0) for w, s in self._seeds.items()}), width) + self._slope * keys
            self._drift += DECAY * (seconds / seeded - self._drift) if seeded > 0 else 0.0
        if width in self._seconds:
            mean, keys_mean = self._seconds[width], self._keys[width]
            aside, above = keys - keys_mean.value, seconds - mean.value
            if abs(aside) >= _APART:
                self._spread += aside * aside - _SLOPE_DECAY * self._spread
                self._tilt += aside * above - _SLOPE_DECAY * self._tilt
            mean.feed(seconds, self._now)
            keys_mean.feed(keys, self._now)
        else:
            self._seconds[width] = Mean(seconds, self._now)
            self._keys[width] = Mean(keys, self._now)
        self._curve = None

    def lend(self, rows: int, bucket: int, seconds: float) -> None:
        """A shared round of one forward: it stands in for a width that no stream alone had yet, and feeds nothing."""
        if (width := self._plan.padded(rows)) not in self._seconds:
            self._seeds.setdefault(width, max(0.0, seconds - self._slope * self._in_view(rows, bucket)))
            self._curve = None

    def seconds(self, rows: int, bucket: int) -> float:
        """Expected seconds of a round of one window; 0 while nothing was ever timed."""
        return self.by_drafts(1, rows - 1, bucket)[-1]

    def by_drafts(self, streams: int, drafts: int, bucket: float) -> list[float]:
        """Expected seconds of a round of ``streams`` windows with 0 to ``drafts`` drafts in it, at one bucket.

        More rows than a forward holds are split into several.
        """
        top, tile, slope = self._plan.top, self._plan.tile, self._slope
        costs = []
        for rows in range(streams, streams + drafts + 1):
            full, rest = divmod(rows, top)
            base = full * self._base(top) + (self._base(self._plan.padded(rest)) if rest else 0.0)
            costs.append(base + slope * bucket * max(streams, -(-rows // tile)))
        return costs

    @property
    def _slope(self) -> float:
        return max(0.0, self._tilt / self._spread) if self._spread else 0.0

    def _in_view(self, rows: int, bucket: int) -> float:
        return float(bucket * -(-rows // self._plan.tile))

    def _base(self, width: int) -> float:
        if self._curve is None:
            points = {width: (seconds * self._drift, 1.0) for width, seconds in self._seeds.items()}
            for timed, mean in self._seconds.items():
                points[timed] = (max(0.0, mean.value - self._slope * self._keys[timed].value), mean.weight)
            self._curve = monotone(points)
        return within(self._curve, width)

"""What the next round costs: the fit of rounds that a stream had to itself, and what sharing one adds to it."""

from __future__ import annotations

from collections.abc import Collection
from statistics import fmean

from tf_host.lanes.depths import RoundSample, StreamView
from tf_host.pricing.means import OUTLIER, STALE, Mean
from tf_host.pricing.plain import Plain
from tf_host.pricing.rounds import RoundCosts
from tf_plugins.rows import RowPlan

__all__ = ["RoundPrices"]


class RoundPrices:
    """Seconds of rounds, alone and shared.

    Args:
        plan: the served row plan.

    Attributes:
        alone: the fit.
        plain: the plain rounds, and how many rounds there were.
    """

    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self.plain = Plain()
        self.alone = RoundCosts(plan, self.plain)
        # Streams, and whether the round was queued -> seconds that it takes past the fit.
        self._shared: dict[tuple[int, bool], Mean] = {}

    def by_drafts(self, views: Collection[StreamView], drafts: int) -> list[float]:
        """Seconds of a round of these streams with 0 to ``drafts`` drafts in it."""
        bucket = fmean(self._plan.bucket(view.context - 1) for view in views)
        extra = [self._extra(len(views), queued) for queued in (True, False)]  # only plain ones are queued
        seconds = self.alone.by_drafts(len(views), drafts, bucket)
        return [max(0.0, each + extra[k > 0]) for k, each in enumerate(seconds)]

    def record(self, sample: RoundSample, seconds: float) -> None:
        """A round took so long; one of a stream alone feeds the fit, a shared one only its own surcharge."""
        buckets = [self._plan.bucket(outcome.context - 1) for outcome in sample.outcomes]
        streams = len(sample.outcomes)
        if streams == 1 and len(sample.padded) == 1:
            self.alone.record(sample.rows, buckets[0], seconds, queued=sample.queued)
        elif streams > 1:
            if len(sample.padded) == 1:
                self.alone.lend(sample.rows, max(buckets), seconds)
            fit = self.alone.by_drafts(streams, sample.rows - streams, fmean(buckets))[-1]
            extra = self._shared.setdefault((streams, sample.queued), Mean(max(0.0, seconds - fit), self.plain.now))
            extra.feed(min(seconds, OUTLIER * (fit + extra.value)) - fit, self.plain.now)

    def stale(self, rows: int) -> bool:
        """Whether a round of so many rows was not timed for a while, or never."""
        return (age := self.alone.age(rows)) is None or age >= STALE

    def _extra(self, streams: int, queued: bool) -> float:
        """What a shared round takes past the fit; a queued one as any other where none was seen for a while."""
        mean = self._shared.get((streams, queued))
        if queued and (mean is None or self.plain.now - mean.at >= STALE):
            return self._extra(streams, False)
        return mean.value if mean else 0.0

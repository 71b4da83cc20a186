"""What drafting costs: a proposer's own numbers and the host's stopwatch, whichever is larger."""

from __future__ import annotations

from tf_host.lanes.depths import READING
from tf_host.pricing.means import OUTLIER, monotone, within
from tf_host.pricing.plain import Measured, Plain, Stamp
from tf_plugins.types import Costs

__all__ = ["ChainCosts"]

_READ_SHARE = 0.1


class ChainCosts:
    """Seconds of one proposer's calls.

        seconds = chain[deepest] + batch * (drafts - deepest) + read * unread

    ``chain`` is a decayed mean of the calls for one stream by the depth asked, interpolated between depths and
    proportional past the deepest; calls for several streams stand in at depths that one stream never reached. ``batch``
    and ``read`` are decayed means of what is left over in calls for several streams and in calls that had context to
    read. Nothing is priced below what the proposer reports. What is stale moves with the plain round (``plain.Stamp``).

    Args:
        plain: what plain rounds take; without it nothing gets stale.
    """

    def __init__(self, plain: Plain | None = None) -> None:
        self.reported = Costs()
        self._now = 0
        self._plain = plain or Plain()
        self._called: Stamp | None = None
        self._chain: dict[int, Measured] = {}
        self._batch: Measured | None = None
        self._read: Measured | None = None
        self._curve: tuple[list[int], list[float]] | None = None
        self._timed: dict[int, float] = {}

    def renew(self) -> None:
        """Before a round: plain ones may have been timed since."""
        self._curve = None

    def record(self, asked: tuple[int, ...], unread: int, seconds: float) -> None:
        """One call: the depth asked for each stream, unread context tokens of all of them, wall seconds."""
        self._now += 1
        self._called = self._plain.stamp()
        deepest, drafts = max(asked), sum(asked)
        if unread > READING and not self._chain:
            # Nothing to tell the two apart by yet: a token read is taken for a tenth of one drafted.
            step = seconds / (deepest + _READ_SHARE * unread)
            self._chain[deepest] = self._fed(None, step * deepest)
            self._read, self._curve = self._fed(None, _READ_SHARE * step), None
            return
        over = seconds - self.chain(deepest) - self.batch * (drafts - deepest)
        if unread > READING:
            self._read = self._fed(self._read, max(0.0, over) / unread)
        elif drafts > deepest and deepest <= max(self._chain, default=0):
            self._batch = self._fed(self._batch, max(0.0, seconds - self.chain(deepest)) / (drafts - deepest))
        else:
            mean = self._chain.get(deepest)
            seconds = min(seconds, OUTLIER * mean.value) if mean and mean.value > 0 else seconds
            self._chain[deepest], self._curve = self._fed(mean, seconds), None

    def record_read(self, tokens: int, seconds: float) -> None:
        """It read context alone: tokens, wall seconds."""
        self._now += 1
        self._called = self._plain.stamp()
        self._read = self._fed(self._read, seconds / tokens)

    def chain(self, depth: int) -> float:
        """Seconds of drafting ``depth`` tokens for one stream."""
        if self._curve is None:
            points = {depth: (mean.value, mean.weight) for depth, mean in self._chain.items()}
            self._curve, self._timed = monotone({0: (0.0, 1.0), **points}), {}
        if (timed := self._timed.get(depth)) is None:
            deepest = self._curve[0][-1]
            timed = within(self._curve, depth) * (depth / deepest if depth > deepest > 0 else 1.0)
            self._timed[depth] = timed
        return max(timed, self._said(self.reported.step) * depth) if self.reported.step else timed

    @property
    def batch(self) -> float:
        """Seconds that a step takes longer for each further stream."""
        return max(self._said(self.reported.batch), self._batch.value if self._batch else 0.0)

    @property
    def read(self) -> float:
        """Seconds of reading one context token."""
        return max(self._said(self.reported.read), self._read.value if self._read else 0.0)

    def _said(self, reported: float) -> float:
        """What the proposer reports; it measured that when it was called."""
        return reported * self._plain.renewal(self._called)

    def _fed(self, mean: Measured | None, value: float) -> Measured:
        if mean is None:
            return Measured(self._plain, value, self._now)
        mean.feed(value, self._now)
        return mean

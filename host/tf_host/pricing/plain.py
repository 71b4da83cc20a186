"""Plain rounds as a measure of the machine: what was timed long ago is priced by them."""

from __future__ import annotations

from dataclasses import dataclass

from tf_host.pricing.means import STALE, Mean

__all__ = ["Measured", "Plain", "Stamp"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """When something was measured last, and what plain rounds took then.

    What is stale is priced by how much longer than a plain round it took. Else a machine that was busy once would never
    draft again: plain rounds show that it is not busy any more, and nothing shows that of drafted ones.

    Attributes:
        round: which.
        alone: seconds of a plain round, 0 where none was timed.
        queued: seconds of one that was queued behind another.
    """

    round: int
    alone: float = 0.0
    queued: float = 0.0


class Plain:
    """Seconds of plain rounds of one stream, those that were queued apart.

    Attributes:
        now: rounds so far.
    """

    def __init__(self) -> None:
        self.now = 0
        self._means: dict[bool, Mean] = {}

    def feed(self, seconds: float, *, queued: bool) -> None:
        """A plain round was timed."""
        if (mean := self._means.get(queued)) is None:
            self._means[queued] = Mean(seconds, self.now)
        else:
            mean.feed(seconds, self.now)

    def stamp(self) -> Stamp:
        """Of something that is measured now."""
        alone, queued = (self._means.get(kind) for kind in (False, True))
        return Stamp(self.now, alone.value if alone else 0.0, queued.value if queued else 0.0)

    def renewal(self, stamp: Stamp | None) -> float:
        """What to multiply a measurement by; 1 unless it is stale and the latest kind of plain round was known then."""
        if stamp is None or self.now - stamp.round < STALE or not self._means:
            return 1.0
        queued = max(self._means, key=lambda kind: self._means[kind].at)
        then = stamp.queued if queued else stamp.alone
        return self._means[queued].value / then if then > 0 else 1.0


class Measured:
    """A decayed mean that moves with the plain round while it is stale.

    Args:
        plain: the plain rounds.
        value: its first measurement.
        now: when, as ``Mean`` counts.
    """

    def __init__(self, plain: Plain, value: float, now: int) -> None:
        self._plain = plain
        self._mean = Mean(value, now)
        self.stamp()

    @property
    def value(self) -> float:
        """What it comes to now."""
        return self._mean.value * self._plain.renewal(self._stamp)

    @property
    def at(self) -> int:
        """When it was measured last."""
        return self._mean.at

    @property
    def weight(self) -> float:
        """How much was measured."""
        return self._mean.weight

    def feed(self, value: float, now: int) -> None:
        """One measurement more; what is known moves from what it comes to now."""
        self._mean.value = self.value
        self._mean.feed(value, now)
        self.stamp()

    def stamp(self) -> None:
        """It was measured when plain rounds took what they take now."""
        self._stamp = self._plain.stamp()

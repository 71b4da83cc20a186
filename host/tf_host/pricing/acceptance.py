"""How likely a stream's next drafts are to stand."""

from __future__ import annotations

__all__ = ["PRIOR", "Acceptance", "prior"]

PRIOR = (0.85, 0.75, 0.7, 0.65, 0.6, 0.55)
"""Chances by depth of drafts that nothing is known of; 0.5 past these."""

_TAIL = 0.5
_PRIOR_WEIGHT = 6.0

QUICK = 0.15
"""How far one judged draft moves a stream's own acceptance."""

STEADY = 0.03
"""How far it moves the stream's steadier mean. The quick one finds text that drafts better, where it counts half; the
steady one keeps a run of misses from stopping drafts that pay."""

RECENT = 0.02
"""How far it moves what later streams start from."""

HOPE = 0.1
"""A reply may draft better than the recent ones did, and only drafts show it: its chances begin higher, by this where
half of the drafts stand and by less the surer it is that they do or don't. How often the demo drafter is right differs
from reply to reply by 0.16 (standard deviation, 24 greedy replies and 24 at 0.7)."""

_HOPED = 8.0
"""Own judged drafts after which half of that is left."""


def prior(depth: int) -> float:
    """The chance of the draft at ``depth``, from 1, before anything is known."""
    return PRIOR[depth - 1] if depth <= len(PRIOR) else _TAIL


class Acceptance:
    """Decayed acceptance of one proposer's drafts, in one stream or over the recent ones.

    A draft is judged when all before it stood. Each judged draft moves the means towards 1 or 0 by their rates, the
    first few by more, so that they begin as plain averages. The chance of the draft at depth ``i`` is

        known * max(steady, (quick + steady) / 2) + (1 - known) * prior(i),    known = judged / (judged + 6)

    so the prior counts as much as the first six drafts judged, of this stream and of those it started from. To the
    mean comes ``4 hope mean (1 - mean)``, halved by the first eight drafts judged since the start.

    Args:
        start: what to start from, usually the recent streams' acceptance.
        quick: rate of the first mean.
        steady: rate of the second.
        hope: how much better than what it starts from it may be.
    """

    def __init__(
        self, start: Acceptance | None = None, *, quick: float = QUICK, steady: float = STEADY, hope: float = 0.0
    ) -> None:
        self._rates = quick, steady
        self._hope = hope
        self._own = 0
        self._quick: float = start.mean if start else _TAIL
        self._steady: float = self._quick
        self._judged: int = start._judged if start else 0
        self.answered: float = start.answered if start else 1.0

    @property
    def mean(self) -> float:
        """The chance of a draft, once some were judged."""
        return max(self._steady, (self._quick + self._steady) / 2)

    @property
    def known(self) -> bool:
        """Whether any draft was judged."""
        return self._judged > 0

    def chances(self, depth: int) -> list[float]:
        """Chances of the drafts at depths 1 to ``depth``."""
        mean, unknown = self.mean, _PRIOR_WEIGHT / (_PRIOR_WEIGHT + self._judged)
        if self._hope:
            mean += self._hope * 4 * mean * (1 - mean) * _HOPED / (_HOPED + self._own)
        return [mean + unknown * (prior(k) - mean) for k in range(1, depth + 1)]

    def judge(self, kept: int, *, missed: bool) -> None:
        """Drafts were compared with the target's own tokens: so many stood, and the one after them maybe did not."""
        self._own += kept + missed
        for stood in [1.0] * kept + [0.0] * missed:
            self._judged += 1
            average = 1.0 / self._judged
            self._quick += max(self._rates[0], average) * (stood - self._quick)
            self._steady += max(self._rates[1], average) * (stood - self._steady)

    def asked(self, answered: bool) -> None:
        """The proposer was asked for drafts, and had some or none."""
        self.answered += self._rates[0] * ((1.0 if answered else 0.0) - self.answered)

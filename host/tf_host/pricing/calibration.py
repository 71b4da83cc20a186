"""What a proposer's own probabilities are worth."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate

from tf_host.pricing.means import STALE

__all__ = ["Calibration", "Places"]

Places = Sequence[Sequence[float]]
"""Of each draft and then of its alternatives: probabilities, or the chances that they come to."""

_EDGES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.96)
"""Between the bins: narrower towards 0 and 1, where a chance changes most by its ratio."""

_PRIOR_WEIGHT = 20.0
"""Tokens that a proposer's own number counts as. Those of the demo drafter are right within 0.05 for greedy drafts."""

_KEPT = 0.995
"""Share of a bin that is left after another of its tokens was judged."""

_FIRST = 16
"""Offers by which rows are not chosen yet."""

_SUREST, _LEAST = 0.999, 1e-6
"""Bounds of what is taken the logarithm of."""


class _Bins:
    """How often tokens of about a probability stood, decayed."""

    def __init__(self) -> None:
        self._tried = [0.0] * (len(_EDGES) + 1)
        self._stood = [0.0] * (len(_EDGES) + 1)

    def judge(self, probability: float, stood: bool) -> None:
        at = bisect(_EDGES, probability)
        self._tried[at] = self._tried[at] * _KEPT + 1
        self._stood[at] = self._stood[at] * _KEPT + stood

    def chance(self, probability: float) -> float:
        at = bisect(_EDGES, probability)
        return (_PRIOR_WEIGHT * probability + self._stood[at]) / (_PRIOR_WEIGHT + self._tried[at])


class Calibration:
    """One proposer's greedy or sampled drafts: how often they stood by what it said of them.

    The chance of a token of probability ``p`` is ``(20 p + stood) / (20 + tried)``, counted over the tokens whose
    probabilities are near ``p``, drafts and alternatives apart. All are chances once the drafts before stand.
    """

    def __init__(self) -> None:
        self._drafts, self._others = _Bins(), _Bins()
        self._said = self._worth = -1.0  # logarithms, decayed: as if it were right
        self._offers = 0
        self._since = 0  # offers since the last one that was not gone by

    @property
    def used(self) -> bool:
        """Whether the proposer gives probabilities at all."""
        return self._offers > 0

    @property
    def trusted(self) -> bool:
        """Whether this round's rows are chosen by the probabilities of its offers.

        Not by the first ones, nor in a round now and then: what is always cut off deep down would never be judged.
        """
        return self._offers > _FIRST and self._since < STALE

    def chances(self, probabilities: Places) -> list[list[float]]:
        """What the probabilities of an offer come to; a later alternative of a place has no better chance."""
        return [
            [self._drafts.chance(draft), *accumulate(map(self._others.chance, others), min)]
            for draft, *others in probabilities
        ]

    def offered(self, probabilities: Places) -> None:
        """An offer came."""
        self._offers += 1
        self._since += 1
        for draft, *_ in probabilities:
            self._said = self._said * _KEPT + _log(draft)
            self._worth = self._worth * _KEPT + _log(self._drafts.chance(draft))

    def said(self, chance: float) -> float:
        """The probability that the proposer gives a draft whose chance this is, about: a power of it, the same for all.

        For one that doubts itself, or that is too sure, products of its probabilities would fall too soon or too late.
        """
        if chance <= 0:
            return 0.0
        return math.exp(_log(chance) * self._said / self._worth)

    def judge(self, offered: Places, kept: int, next: int | None) -> None:
        """An offer's drafts and alternatives, verified or not, were compared with the target's own tokens.

        Args:
            offered: their probabilities.
            kept: drafts that stood.
            next: the target's own token in the place after them, as ``Outcome.next``.
        """
        if self._since >= STALE:
            self._since = 0
        for place, (draft, *others) in enumerate(offered[: kept + (next is not None)]):
            own = 0 if place < kept else next
            self._drafts.judge(draft, own == 0)
            for rank, other in enumerate(others, 1):
                self._others.judge(other, own == rank)


def _log(chance: float) -> float:
    return math.log(min(max(chance, _LEAST), _SUREST))

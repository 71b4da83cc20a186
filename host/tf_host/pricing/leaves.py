"""Which rows of a window are worth most: its drafts, or other tokens in their places.

A draft that stands lands one token; so does an alternative that stands where a draft does not. With ``qi`` the chance
that draft ``i`` stands once the ones before it do, and ``ar`` the chance that the ``r``-th alternative stands where a
draft does not,

    draft i: q1...qi        alternative r of place i: q1...q(i-1) (1 - qi) ar

are the tokens that a row is expected to land, and the best window of so many rows has those that land most.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tf_host.lanes.depths import Cut
from tf_host.pricing.calibration import Places

__all__ = ["PRIOR", "Alternatives", "Ranked", "expected", "ranked", "widened"]

PRIOR = (0.25, 0.14, 0.07)
"""Chances of alternatives that nothing is known of. Of 351 greedy tokens of the demo pair that the drafter missed, 26%
were its second choice, 14% its third and 6% its fourth; at 0.7 they were 22%, 14% and 7% of 467."""

_PRIOR_WEIGHT = 20.0

_GIVEN = 0.3
"""How far an offer moves what the next is expected to have."""

_KEPT = 0.995
"""Share of what was counted that is left after another draft that did not stand."""


class Alternatives:
    """How often alternatives stood where a draft did not, decayed, for one proposer's greedy or sampled drafts."""

    def __init__(self) -> None:
        self._tried = [0.0] * len(PRIOR)
        self._stood = [0.0] * len(PRIOR)
        self._given = 0.0

    def given(self, most: int) -> None:
        """An offer had at most so many alternatives in a place."""
        self._given += _GIVEN * (most - self._given)

    @property
    def likely(self) -> list[float]:
        """Chances of as many alternatives as the next offer is likely to have in each place."""
        return self.chances[: round(self._given)]

    def judge(self, tried: int, stood: int) -> None:
        """``tried`` alternatives were verified in the place of a draft that did not stand; the ``stood``-th stood."""
        for rank in range(min(tried, len(PRIOR))):
            self._tried[rank] = self._tried[rank] * _KEPT + 1
            self._stood[rank] = self._stood[rank] * _KEPT + (rank + 1 == stood)

    @property
    def chances(self) -> list[float]:
        """Of each alternative in its order; a later one has no better chance."""
        found = [
            (_PRIOR_WEIGHT * prior + stood) / (_PRIOR_WEIGHT + tried)
            for prior, stood, tried in zip(PRIOR, self._stood, self._tried, strict=True)
        ]
        return list(accumulate(found, min))


@dataclass(frozen=True, slots=True)
class Ranked:
    """An offer's rows, those that land most first.

    Attributes:
        places: each row's: ``(place, 0)`` for a draft, ``(place, r)`` for its ``r``-th alternative.
        gains: tokens that each is expected to land, never more than the row before.
    """

    places: tuple[tuple[int, int], ...]
    gains: tuple[float, ...]

    @property
    def landed(self) -> list[float]:
        """Expected tokens of a window with the first 0, 1, 2, ... rows."""
        return list(accumulate(self.gains, initial=1.0))

    def cut(self, rows: int) -> Cut:
        """What the first so many rows are."""
        beside = Counter[int]()
        for place, rank in self.places[:rows]:
            beside[place] += rank > 0
        return Cut(len(beside), tuple(beside[place] for place in range(len(beside))))


def ranked(places: Places, most: int) -> Ranked:
    """The ``most`` best rows.

    Args:
        places: chances of each draft and of its alternatives, once the drafts before stand.
        most: rows.
    """
    rows, reached = list[tuple[float, int, int]](), 1.0
    for place, (draft, *others) in enumerate(places):
        stands = reached * draft
        rows.append((-stands, 0, place))
        # No more than the draft itself, so that no place is without its draft.
        rows += [(max(-stands, -reached * other), rank, place) for rank, other in enumerate(others, 1)]
        reached = stands
    rows.sort()
    best = rows[:most]
    return Ranked(tuple((place, rank) for _, rank, place in best), tuple(-loss for loss, _, _ in best))


def expected(chances: Sequence[float], alternatives: Sequence[float], offered: Sequence[int]) -> Places:
    """Chances by place where nothing is known of single tokens.

    Args:
        chances: of the drafts, each once the ones before it stood.
        alternatives: chances of a place's alternatives where its draft does not stand.
        offered: how many alternatives each of the first places has.
    """
    beside = [alternatives[:count] for count in offered[: len(chances)]] + [()] * (len(chances) - len(offered))
    return [[chance, *((1 - chance) * other for other in some)] for chance, some in zip(chances, beside, strict=True)]


def widened(
    chances: Sequence[float], alternatives: Sequence[float], rounds: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Expected tokens and seconds by depth, each with the alternatives that pay beside so many drafts.

    Args:
        chances: of the drafts.
        alternatives: of every place's alternatives.
        rounds: seconds of a round of ``1 + k`` rows.
    """
    beside: list[float] = []  # negative, so that the most comes first
    total, tokens, seconds, reached = 1.0, [1.0], [rounds[0]], 1.0
    for depth, (draft, *others) in enumerate(expected(chances, alternatives, [len(alternatives)] * len(chances)), 1):
        stands = reached * draft
        total += stands
        for other in others:
            insort(beside, -min(stands, reached * other))
        reached = stands
        landed = best = total
        took = rounds[depth]
        for gain, wider in zip(beside, rounds[depth + 1 :], strict=False):  # in every round: no calls here
            landed -= gain
            if landed * took > best * wider:
                best, took = landed, wider
        tokens.append(best)
        seconds.append(took)
    return tokens, seconds

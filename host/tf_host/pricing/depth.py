"""How many drafts pay: pure rules over expected tokens and seconds.

Throughout, ``landed[k]`` are the tokens that a window of ``k`` drafts is expected to land, its own draw included:
``1 + q1 + q1 q2 + ... + q1...qk`` with ``qi`` the chance that draft ``i`` stands once the ones before it do. Its
increments only shrink, which makes the searches below exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise
from operator import mul

__all__ = ["alone", "landed", "rate", "together"]

# Streams whose entry is weighed in every combination; past these, one with an entry cost waits for another round.
_WEIGHED = 3


def landed(chances: Sequence[float], answered: float = 1.0) -> list[float]:
    """Expected tokens of windows of 0 to ``len(chances)`` drafts.

    ``landed[k] = 1 + answered * (q1 + q1 q2 + ... + q1...qk)``: with one chance ``p`` for every draft and a proposer
    that always answers, ``1 + p + ... + p^k``.
    """
    return list(accumulate(accumulate(chances, mul), lambda total, chance: total + answered * chance, initial=1.0))


def rate(tokens: float, seconds: float) -> float:
    """Tokens a second; a round that takes no time is infinitely good."""
    return tokens / seconds if seconds > 0 else float("inf")


def alone(
    landed: Sequence[float], rounds: Sequence[float], chain: Sequence[float], reading: float = 0.0
) -> tuple[int, float]:
    """The depth of a stream that has a round to itself, and its tokens a second.

    Depth ``k`` maximises ``landed[k] / (rounds[k] + chain[k] + reading * landed[k])``, ``k = 0`` without reading. A tie
    goes to the shallower.

    Args:
        landed: expected tokens by depth, from 0.
        rounds: seconds of a round of ``1 + k`` rows, by depth.
        chain: seconds that drafting ``k`` tokens takes, by depth; ``chain[0] = 0``.
        reading: seconds of reading the unread context, divided by the reply tokens that are left to repay it.
    """
    best, best_rate = 0, rate(landed[0], rounds[0])
    for k in range(1, len(landed)):
        at_k = rate(landed[k], rounds[k] + chain[k] + reading * landed[k])
        if at_k > best_rate:
            best, best_rate = k, at_k
    return best, best_rate


def together(
    landed: Sequence[Sequence[float]],
    rounds: Sequence[float],
    chain: Sequence[float],
    batch: float = 0.0,
    entry: Sequence[float] = (),
    tokens: float = 0.0,
) -> tuple[int, ...]:
    """Depths of streams that share a round, chosen together; all zero only where drafting costs more than it lands.

    The depths ``k1, k2, ...`` maximise the tokens a second of the whole round,

        (tokens + sum landed_i[k_i]) / (rounds[K] + chain[D] + batch * (K - D) + sum of entry_i where k_i > 0)

    with ``K = sum k_i`` and ``D = max k_i``: the chain is as long as the deepest draft, and each further draft in a
    step costs ``batch``. For a given ``D`` and ``K`` the best depths take the ``K`` largest increments of ``landed``,
    so a walk over ``D`` and ``K`` finds the best of all combinations. Ties go to fewer drafts.

    Args:
        landed: a stream's expected tokens by depth, from 0.
        rounds: seconds of the round, by drafts in it; at least as long as all streams' depths together, plus one.
        chain: seconds of drafting to a depth for one stream.
        batch: seconds that a step takes longer for each further stream, at most what the step takes for one.
        entry: seconds that each stream's first draft costs besides, such as its share of reading its context.
        tokens: tokens that the round lands for other streams.
    """
    entry = entry or [0.0] * len(landed)
    free = [i for i, seconds in enumerate(entry) if seconds <= 0]
    priced = sorted((i for i in range(len(landed)) if entry[i] > 0), key=lambda i: entry[i])[:_WEIGHED]
    undrafted = tokens + sum(stream[0] for stream in landed)
    best: tuple[Sequence[tuple[float, int, int]], int, int] = ((), 0, 0)
    best_rate = rate(undrafted, rounds[0])
    for some in (chosen for size in range(len(priced) + 1) for chosen in combinations(priced, size)):
        increments = sorted(step for i in (*free, *some) for step in _increments(landed[i], i))
        extra = sum(entry[i] for i in some)
        limit = max((k for _, k, _ in increments), default=0)
        # Where drafting costs nothing, or nothing more, the deepest limit covers the others.
        for deepest in range(1 if chain[limit] > 0 else limit, limit + 1) if limit else ():
            total, drafts, reached = undrafted, 0, 0
            for loss, k, _ in increments:  # in every round, hundreds of times: no calls here
                if k > deepest:
                    continue
                total -= loss
                drafts += 1
                if k > reached:
                    reached = k
                seconds = rounds[drafts] + chain[reached] + batch * (drafts - reached) + extra
                if total > best_rate * seconds:
                    best_rate, best = rate(total, seconds), (increments, deepest, drafts)
    return _depths(*best, len(landed))


def _increments(landed: Sequence[float], stream: int) -> list[tuple[float, int, int]]:
    """``(-gain, depth, stream)`` of each further draft; rounding never lets a deeper one gain more."""
    gains = accumulate((before - deeper for before, deeper in pairwise(landed)), max)
    return [(gain, k, stream) for k, gain in enumerate(gains, 1)]


def _depths(increments: Sequence[tuple[float, int, int]], deepest: int, drafts: int, streams: int) -> tuple[int, ...]:
    """The depths that the first ``drafts`` increments no deeper than ``deepest`` make."""
    depths = [0] * streams
    for _, k, stream in increments:
        if k <= deepest and drafts:
            depths[stream] = max(depths[stream], k)
            drafts -= 1
    return tuple(depths)

"""What of the offers is verified, once drafting is paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_host.lanes.depths import FORCED, Cut, Offer
from tf_host.pricing.depth import rate, together
from tf_host.pricing.learned import Learned
from tf_host.pricing.means import STALE
from tf_host.pricing.turn import Turn

__all__ = ["WIDER_WITHIN", "trimmed"]

WIDER_WITHIN = 0.9
"""A stream alone gets more rows than the best, now and then, where they reach this share of its tokens a second."""


def trimmed(learned: Learned, turn: Turn, offers: Sequence[Offer]) -> Mapping[int, Cut]:
    """Offers cut to the rows that pay together; trials stay as they are.

    What a stream alone was asked for is cut only where alternatives may be worth more, or it has probabilities.
    """
    loose = [offer for offer in offers if (offer.stream, offer.proposer) not in turn.trials]
    if turn.alone and not any(any(offer.beside) or offer.probabilities for offer in loose):
        return {}
    whole = sum(offer.tokens for offer in offers) - sum(offer.tokens for offer in loose)
    rows = [learned.offered(turn, offer) for offer in loose]
    gains = [each.landed for each in rows]
    rounds = turn.seconds(whole + sum(len(each.gains) for each in rows))[whole:]
    free = [0.0] * max((len(gain) for gain in gains), default=0)
    counts = together(gains, rounds, free, tokens=float(len(turn.views) - len(loose)))
    if turn.alone:
        counts = (_wider(learned, loose[0], gains[0], rounds, counts[0]),)
    return {offer.stream: each.cut(count) for offer, each, count in zip(loose, rows, counts, strict=True)}


def _wider(learned: Learned, offer: Offer, gains: Sequence[float], rounds: Sequence[float], best: int) -> int:
    """The rows of a stream alone: the best, or now and then more, as many as were timed longest ago."""
    if offer.proposer == FORCED or learned.prices.plain.now % STALE:
        return best
    least = WIDER_WITHIN * rate(gains[best], rounds[best])
    near = [count for count in range(best + 1, len(gains)) if rate(gains[count], rounds[count]) >= least]
    ages = {count: learned.prices.alone.age(1 + count) for count in near}
    return max(near, key=lambda count: (ages[count] is None, ages[count] or 0, count), default=best)

"""How deep to ask a proposer, for a stream alone and for streams together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_host.lanes.depths import StreamView
from tf_host.pricing.aside import FIRST
from tf_host.pricing.depth import alone, landed, rate, together
from tf_host.pricing.learned import Learned
from tf_host.pricing.leaves import widened
from tf_host.pricing.means import STALE
from tf_host.pricing.turn import TRIAL, Turn

__all__ = ["DEEPER_EVERY", "Asking"]

DEEPER_EVERY = 8
"""A stream alone tries one depth more once in so many drafted rounds."""

DEEPER_WITHIN = 0.9
"""It does so only where that is expected to reach this share of the best depth's tokens a second."""

STALE_WITHIN = 0.5
"""A width that is stale is tried at this share. A window with alternatives, whose rows are chosen one by one, tries one
such width in as many rounds as make it stale."""

PLAIN_WITHIN = 2.0
"""The plain round is timed again once it is as stale, where drafts bring less than so many times its tokens a second:
that is what they compete with."""

TRIAL_SHARE = 0.01
"""What a trial may cost more than a plain round, as a share of the plain rounds stood since the last, by this stream or
by all of its kind; at first, of the tokens that are likely left, up to 64."""

MOST_LEAST = 0.9
"""Never is a proposer told to end with a draft as likely as this."""


class Asking:
    """Decides depths, a round at a time.

    Args:
        learned: what they are priced by.
        proposers: how many there are.
    """

    def __init__(self, learned: Learned, proposers: int) -> None:
        self._learned = learned
        self._proposers = proposers
        self._overdue = 0

    def alone(self, turn: Turn, view: StreamView, proposer: int) -> int:
        """The depth for a stream that has the round to itself."""
        limit = turn.limit(view)
        rounds = turn.seconds(limit)
        streams, chains = self._learned.streams, self._learned.chains
        drafts = streams.drafts(view.id, proposer)
        later = [i for i in range(proposer + 1, self._proposers) if streams.drafting(view.id, i)]
        # What a round lands and takes when this proposer is not asked, or has nothing: the later ones' best.
        tokens, seconds = 1.0, rounds[0]
        for index in (*reversed(later), proposer):
            acceptance = streams.drafts(view.id, index).acceptance
            answered, reading = acceptance.answered, self._learned.reading(view, index)
            lands, takes = self._by_depth(turn, view.id, index, rounds)
            gains = [answered * gain + (1 - answered) * tokens for gain in lands]
            costs = [answered * cost + (1 - answered) * seconds for cost in takes]
            gains[0], costs[0] = tokens, seconds
            chain = [chains[index].chain(k) for k in range(limit + 1)]
            depth, best = alone(gains, costs, chain, reading)
            tokens, seconds = gains[depth], gains[depth] / best
        turn.rates[view.id] = best
        if not depth:
            return self._aside(turn, view, proposer, rounds)
        drafts.aside.pays()
        if best < PLAIN_WITHIN / rounds[0] and self._plain_is_due(turn):
            return 0
        drafts.rounds += 1
        if drafts.rounds % DEEPER_EVERY == 0 and depth < limit:
            deeper = depth + 1
            at_deeper = rate(gains[deeper], costs[deeper] + chain[deeper] + reading * gains[deeper])
            within = STALE_WITHIN if self._learned.prices.stale(1 + deeper) else DEEPER_WITHIN
            return deeper if at_deeper >= within * best else depth
        return depth

    def together(self, turn: Turn, lacking: Sequence[StreamView], proposer: int) -> dict[int, int]:
        """The depths of the streams that lack a draft, with the drafts taken so far as they are."""
        learned, chain = self._learned, self._learned.chains[proposer]
        drafted = sum(offer.tokens for offer in turn.taken.values())
        limits = [turn.limit(view) for view in lacking]
        rounds = turn.seconds(drafted + sum(limits))[drafted:]
        # With alternatives not all rows of a stream are drafts; its chain is priced as if they were, a little too dear.
        rows = [learned.likely(view.id, proposer, limit) for view, limit in zip(lacking, limits, strict=True)]
        gains = [each.landed for each in rows]
        tokens = float(len(turn.views) - len(lacking) - len(turn.taken))
        for offer in turn.taken.values():
            tokens += learned.offered(turn, replace(offer, beside=(), probabilities=())).landed[-1]
        if learned.free(turn, proposer):
            # Few streams will have something to copy: each is asked as if it were the only one, and then cut.
            others = tokens + len(lacking) - 1
            counts = tuple(alone([others + g for g in gain], rounds, [0.0] * len(gain))[0] for gain in gains)
        else:
            steps = [chain.chain(k) for k in range(max(limits, default=0) + 1)]
            entry = [learned.reading(view, proposer) * gain[-1] for view, gain in zip(lacking, gains, strict=True)]
            counts = together(gains, rounds, steps, chain.batch, entry, tokens)
        depths = {}
        for view, each, count in zip(lacking, rows, counts, strict=True):
            if depth := each.cut(count).tokens:
                learned.streams.drafts(view.id, proposer).aside.pays()
            depths[view.id] = depth or self._aside(turn, view, proposer, rounds)
        return depths

    def least(self, turn: Turn, view: StreamView, proposer: int) -> float:
        """The chance of a draft below which the next does not pay: the tokens that land while it is made and verified.

        It lands no more than the chance that all before it stand. Streams that are asked together share a step. Where
        there are alternatives, they get the rows that drafts do not, which therefore cost nothing more.
        """
        limit = turn.limit(view)
        if not limit:
            return 0.0
        rounds, chain = turn.seconds(limit), self._learned.chains[proposer]
        step = (chain.chain(limit) - chain.chain(1)) / (limit - 1) if limit > 1 else chain.chain(1)
        asked = max(1, sum(depth > 0 for depth in turn.asked.get(proposer, {}).values()))
        further = (step + (asked - 1) * chain.batch) / asked
        if not self._learned.streams.alternatives(view.id, proposer).likely:
            further += (rounds[limit] - rounds[0]) / limit
        at = turn.rates.get(view.id) or rate(len(turn.views), rounds[0])
        return min(MOST_LEAST, at * further)

    def _by_depth(
        self, turn: Turn, stream: int, proposer: int, rounds: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Expected tokens and seconds of a round by a stream's drafts in it, with the alternatives that pay."""
        if (stream, proposer) not in turn.lands:
            streams = self._learned.streams
            chances = streams.drafts(stream, proposer).acceptance.chances(len(rounds) - 1)
            alternatives = streams.alternatives(stream, proposer).likely
            found = widened(chances, alternatives, rounds) if alternatives else (landed(chances), list(rounds))
            turn.lands[stream, proposer] = found
        return turn.lands[stream, proposer]

    def _aside(self, turn: Turn, view: StreamView, proposer: int, rounds: Sequence[float]) -> int:
        """0 for a stream that stands aside, or the depth of its trial when one is due and cheap enough by now."""
        aside = self._learned.streams.drafts(view.id, proposer).aside
        if aside.due:
            allowed = TRIAL_SHARE * max(aside.rounds, min(FIRST, self._learned.left(view))) * rounds[0]
            chain, reading = self._learned.chains[proposer], self._learned.unread(view, proposer)
            for depth in range(min(TRIAL, turn.limit(view)), 0, -1):
                cost = rounds[depth] - rounds[0] + chain.chain(depth)
                if aside.again or cost + reading <= allowed:
                    aside.take()
                    turn.trials[view.id, proposer] = cost / rounds[0] if rounds[0] else 0.0
                    return depth
        if turn.follows:
            aside.stood(len(turn.views))
        return 0

    def _plain_is_due(self, turn: Turn) -> bool:
        """Whether to leave this round plain, to time it: one round in ``STALE``, whoever is asked about it.

        Where another is queued behind it, that is the one that is timed.
        """
        if turn.plain_due is None:
            self._overdue = self._overdue + 1 if self._learned.prices.stale(1) else 0
            turn.plain_due = self._overdue % STALE == 1
        return turn.plain_due

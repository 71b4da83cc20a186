"""The depths of every round, priced by what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tf_host.lanes.depths import FORCED, MOST_DRAFTS, READING, Cut, DraftSample, Offer, Outcome, RoundSample, StreamView
from tf_host.lanes.fence import Fence
from tf_host.pricing.aside import FIRST
from tf_host.pricing.chains import ChainCosts
from tf_host.pricing.depth import alone, landed, rate, together
from tf_host.pricing.leaves import Ranked, expected, ranked, widened
from tf_host.pricing.means import STALE
from tf_host.pricing.prices import RoundPrices
from tf_host.pricing.streams import Streams
from tf_plugins.rows import RowPlan

__all__ = ["Pricing"]

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

TRIAL = 3
"""Most drafts of the round that a stream standing aside tries."""

TRIAL_SHARE = 0.01
"""What that round may cost more than a plain one, as a share of the plain rounds stood since the last; at first, of
the tokens that are likely left, up to 64."""

MOST_LEAST = 0.9
"""Never is a proposer told to end with a draft as likely as this."""

FREE = 0.02
"""Drafting that takes less than this share of a plain round is priced as free: asked for first, cut afterwards."""


class Pricing:
    """Decides every stream's depth from measured costs and acceptance; a ``tf_host.lanes.depths.Depths``.

    A stream alone takes the depth of ``depth.alone``; streams that share a round take those of ``depth.together``.
    Proposers are weighed in their order: one that has nothing to propose leaves the round to the next, so what it
    competes with is the best of those after it, or the plain round. Where the target takes leaves, what was drafted is
    then weighed row by row: the next draft, or another token in the place of one before.

    A proposer that gives probabilities ends its drafts by ``least`` before that depth; what of them is verified is
    chosen by what such probabilities have come to. Nothing decided here can change a reply.

    Args:
        plan: the served row plan.
        proposers: the proposers behind their fences, in the order they are asked.
    """

    def __init__(self, plan: RowPlan, proposers: Sequence[Fence]) -> None:
        self._proposers = proposers
        self._prices = RoundPrices(plan)
        self._chains = [ChainCosts(self._prices.plain) for _ in proposers]
        self._streams = Streams()
        self._overdue = 0
        self._due: bool | None = None
        self._views: dict[int, StreamView] = {}
        self._taken: dict[int, Offer] = {}
        self._depths: dict[int, dict[int, int]] = {}
        self._trials: set[int] = set()
        self._lands: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
        self._told: dict[int, Offer] = {}
        self._rates: dict[int, float] = {}
        self._rounds: list[float] = []

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        """Most drafts of each stream: all that its window holds, or none before any plain round was timed."""
        self._prices.plain.now += 1
        self._views = {view.id: view for view in streams}
        self._taken, self._depths, self._trials, self._due, self._lands = {}, {}, set(), None, {}
        self._told, self._rates, self._rounds = {}, {}, []
        for view in streams:
            self._streams.open(view.id, sampled=view.temperature > 0)
        if not self._prices.alone.widest or (len(streams) == 1 and self._prices.alone.age(1) is None):
            return {}
        for chain, proposer in zip(self._chains, self._proposers, strict=True):
            chain.reported = proposer.costs()
            chain.renew()
        return {view.id: view.most for view in streams}

    def choose(self, stream: StreamView, proposer: int) -> int:
        """The stream's depth; all streams that lack a draft are priced when the first of them is asked about."""
        if proposer not in self._depths:
            lacking = [view for view in self._views.values() if view.most and view.id not in self._taken]
            if len(self._views) == 1:
                self._depths[proposer] = {view.id: self._alone(view, proposer) for view in lacking}
            else:
                self._depths[proposer] = self._together(lacking, proposer)
        return self._depths[proposer].get(stream.id, 0)

    def least(self, stream: StreamView, proposer: int) -> float:
        """As the proposer would put it; 0 for one that gives no probabilities."""
        calibration = self._streams.calibration(stream.id, proposer)
        return calibration.said(self._least(stream, proposer)) if calibration.used else 0.0

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        """Cut offers to the rows that pay, drafting being paid for; trials stay as they are.

        What a stream alone was asked for is cut only where alternatives may be worth more, or it has probabilities.
        """
        for offer in offers:
            if offer.proposer != FORCED:
                most = max(offer.beside, default=0)
                self._streams.alternatives(offer.stream, offer.proposer).given(most)
            self._told[offer.stream] = offer
        loose = [offer for offer in offers if offer.stream not in self._trials]
        if len(self._views) == 1 and not any(any(offer.beside) or offer.probabilities for offer in loose):
            return {}
        whole = sum(offer.tokens for offer in offers) - sum(offer.tokens for offer in loose)
        rows = [self._ranked(offer) for offer in loose]
        gains = [each.landed for each in rows]
        rounds = self._round_seconds(whole + sum(len(each.gains) for each in rows))[whole:]
        free = [0.0] * max((len(gain) for gain in gains), default=0)
        counts = together(gains, rounds, free, tokens=float(len(self._views) - len(loose)))
        if len(self._views) == 1:
            counts = (self._wider(loose[0], gains[0], rounds, counts[0]),)
        return {offer.stream: each.cut(count) for offer, each, count in zip(loose, rows, counts, strict=True)}

    def free(self, proposer: int) -> bool:
        """Whether the deepest draft takes less than ``FREE`` of a plain round."""
        deepest = max((view.most for view in self._views.values()), default=0)
        return self._chains[proposer].chain(deepest) < FREE * self._round_seconds(0)[0]

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        """Whether drafts are expected to pay, reading included."""
        most = self.plan(streams)
        self._due = False  # no round follows
        return streams[-1].id in most and self.choose(streams[-1], proposer) > 0

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        """Price reading."""
        self._chains[proposer].record_read(tokens, seconds)

    def record_draft(self, sample: DraftSample) -> None:
        """Price the call, and note who has a draft now."""
        asked = self._depths.get(sample.proposer, {})
        depths = tuple(
            offer.tokens if offer.probabilities else asked.get(offer.stream, offer.tokens) for offer in sample.offers
        )
        # A chain may have been longer than what is left of it in front of an end.
        if any(depths) and not any(offer.ended and offer.probabilities for offer in sample.offers):
            self._chains[sample.proposer].record(depths, sample.unread, sample.seconds)
        for offer in sample.offers:
            self._streams.asked(offer.stream, sample.proposer, offer.tokens > 0)
            if offer.tokens:
                self._taken[offer.stream] = offer
            self._told[offer.stream] = offer
            if offer.probabilities:
                self._streams.calibration(offer.stream, offer.proposer).offered(offer.probabilities)
            if offer.stream in self._trials and (offer.tokens or not self.free(sample.proposer)):
                self._streams.drafts(offer.stream, sample.proposer).aside.tried()

    def record_round(self, sample: RoundSample) -> None:
        """Price the round, and judge the drafts."""
        if sample.seconds is not None:
            self._prices.record(sample, sample.seconds)
        for outcome in sample.outcomes:
            if (view := self._views.get(outcome.stream)) is not None:
                landed = outcome.kept + outcome.leaf + 1
                self._streams.replied(outcome.stream, outcome.context - view.prompt + landed)
            if outcome.proposer is not None and outcome.proposer != FORCED:
                self._judge(outcome, outcome.proposer)

    def _judge(self, outcome: Outcome, proposer: int) -> None:
        """Drafts and alternatives were compared with the target's own tokens, those that were cut off too."""
        stream, kept, offer = outcome.stream, outcome.kept, self._told.get(outcome.stream)
        self._streams.judged(stream, proposer, kept + (outcome.next == 0), missed=outcome.next not in (None, 0))
        if offer is None or stream not in self._views:
            return
        if outcome.next and kept < len(offer.beside):
            self._streams.alternatives(stream, proposer).judge(offer.beside[kept], max(0, outcome.next))
        if offer.probabilities:
            self._streams.calibration(stream, proposer).judge(offer.probabilities, kept, outcome.next)

    def forget(self, stream: int) -> None:
        """A stream ended."""
        self._streams.close(stream)

    def _alone(self, view: StreamView, proposer: int) -> int:
        """The depth for a stream that has the round to itself."""
        limit = self._limit(view)
        rounds = self._round_seconds(limit)
        drafts = self._streams.drafts(view.id, proposer)
        later = [i for i in range(proposer + 1, len(self._proposers)) if self._streams.drafting(view.id, i)]
        # What a round lands and takes when this proposer is not asked, or has nothing: the later ones' best.
        tokens, seconds = 1.0, rounds[0]
        for index in (*reversed(later), proposer):
            acceptance = self._streams.drafts(view.id, index).acceptance
            answered, reading = acceptance.answered, self._reading(view, index)
            lands, takes = self._by_depth(view.id, index, limit, rounds)
            gains = [answered * gain + (1 - answered) * tokens for gain in lands]
            costs = [answered * cost + (1 - answered) * seconds for cost in takes]
            gains[0], costs[0] = tokens, seconds
            chain = [self._chains[index].chain(k) for k in range(limit + 1)]
            depth, best = alone(gains, costs, chain, reading)
            tokens, seconds = gains[depth], gains[depth] / best
        self._rates[view.id] = best
        if not depth:
            return self._aside(view, proposer, rounds)
        drafts.aside.pays()
        if best < PLAIN_WITHIN / rounds[0] and self._plain_is_due():
            return 0
        drafts.rounds += 1
        if drafts.rounds % DEEPER_EVERY == 0 and depth < limit:
            deeper = depth + 1
            at_deeper = rate(gains[deeper], costs[deeper] + chain[deeper] + reading * gains[deeper])
            within = STALE_WITHIN if self._prices.stale(1 + deeper) else DEEPER_WITHIN
            return deeper if at_deeper >= within * best else depth
        return depth

    def _together(self, lacking: Sequence[StreamView], proposer: int) -> dict[int, int]:
        """The depths of the streams that lack a draft, with the drafts taken so far as they are."""
        drafted = sum(offer.tokens for offer in self._taken.values())
        limits = [self._limit(view) for view in lacking]
        rounds = self._round_seconds(drafted + sum(limits))[drafted:]
        # With alternatives not all rows of a stream are drafts; its chain is priced as if they were, a little too dear.
        rows = [self._rows(view.id, proposer, limit) for view, limit in zip(lacking, limits, strict=True)]
        gains = [each.landed for each in rows]
        tokens = float(len(self._views) - len(lacking) - len(self._taken))
        tokens += sum(self._ranked(replace(o, beside=(), probabilities=())).landed[-1] for o in self._taken.values())
        if self.free(proposer):
            # Few streams will have something to copy: each is asked as if it were the only one, and `trim` cuts.
            others = tokens + len(lacking) - 1
            counts = tuple(alone([others + g for g in gain], rounds, [0.0] * len(gain))[0] for gain in gains)
        else:
            chain = [self._chains[proposer].chain(k) for k in range(max(limits, default=0) + 1)]
            entry = [self._reading(view, proposer) * gain[-1] for view, gain in zip(lacking, gains, strict=True)]
            counts = together(gains, rounds, chain, self._chains[proposer].batch, entry, tokens)
        depths = [each.cut(count).tokens for each, count in zip(rows, counts, strict=True)]
        for index, view in enumerate(lacking):
            if depths[index]:
                self._streams.drafts(view.id, proposer).aside.pays()
            else:
                depths[index] = self._aside(view, proposer, rounds)
        return {view.id: depth for view, depth in zip(lacking, depths, strict=True)}

    def _aside(self, view: StreamView, proposer: int, rounds: Sequence[float]) -> int:
        """0 for a stream that stands aside, or the depth of its trial when one is due and cheap enough by now."""
        aside, chain = self._streams.drafts(view.id, proposer).aside, self._chains[proposer]
        if aside.due:
            left = self._streams.left(view.context - view.prompt, view.left)
            allowed = TRIAL_SHARE * max(aside.plain, min(FIRST, left)) * rounds[0]
            reading = chain.read * self._unread(view, proposer)
            for depth in range(min(TRIAL, self._limit(view)), 0, -1):
                if rounds[depth] - rounds[0] + chain.chain(depth) + reading <= allowed:
                    self._trials.add(view.id)
                    return depth
        aside.stood()
        return 0

    def _by_depth(
        self, stream: int, proposer: int, limit: int, rounds: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Expected tokens and seconds of a round by a stream's drafts in it, with the alternatives that pay."""
        if (stream, proposer) not in self._lands:
            chances = self._streams.drafts(stream, proposer).acceptance.chances(limit)
            alternatives = self._streams.alternatives(stream, proposer).likely
            found = widened(chances, alternatives, rounds) if alternatives else (landed(chances), list(rounds))
            self._lands[stream, proposer] = found
        return self._lands[stream, proposer]

    def _wider(self, offer: Offer, gains: Sequence[float], rounds: Sequence[float], best: int) -> int:
        """The rows of a stream alone: the best, or now and then more, as many as were timed longest ago."""
        if offer.proposer == FORCED or self._prices.plain.now % STALE:
            return best
        least = DEEPER_WITHIN * rate(gains[best], rounds[best])
        near = [count for count in range(best + 1, len(gains)) if rate(gains[count], rounds[count]) >= least]
        ages = {count: self._prices.alone.age(1 + count) for count in near}
        return max(near, key=lambda count: (ages[count] is None, ages[count] or 0, count), default=best)

    def _ranked(self, offer: Offer) -> Ranked:
        """An offer's rows; no more than its window holds, or than twice the widest that was timed."""
        if offer.proposer == FORCED:
            return ranked([[1.0]] * offer.tokens, offer.tokens)
        most = max(offer.tokens, self._limit(self._views[offer.stream]))
        if offer.probabilities:
            calibration = self._streams.calibration(offer.stream, offer.proposer)
            if calibration.trusted:
                return ranked(calibration.chances(offer.probabilities), most)
        chances = self._streams.drafts(offer.stream, offer.proposer).acceptance.chances(offer.tokens)
        alternatives = self._streams.alternatives(offer.stream, offer.proposer).chances
        return ranked(expected(chances, alternatives, offer.beside), most)

    def _rows(self, stream: int, proposer: int, most: int) -> Ranked:
        """The rows of a window that is not drafted yet, with as many alternatives as are likely."""
        chances = self._streams.drafts(stream, proposer).acceptance.chances(most)
        alternatives = self._streams.alternatives(stream, proposer).likely
        return ranked(expected(chances, alternatives, [len(alternatives)] * most), most)

    def _least(self, view: StreamView, proposer: int) -> float:
        """The chance of a draft below which the next does not pay: the tokens that land while it is made and verified.

        It lands no more than the chance that all before it stand. Streams that are asked together share a step. Where
        there are alternatives, they get the rows that drafts do not, which therefore cost nothing more.
        """
        limit = self._limit(view)
        if not limit:
            return 0.0
        rounds, costs = self._round_seconds(limit), self._chains[proposer]
        step = (costs.chain(limit) - costs.chain(1)) / (limit - 1) if limit > 1 else costs.chain(1)
        asked = max(1, sum(depth > 0 for depth in self._depths.get(proposer, {}).values()))
        further = (step + (asked - 1) * costs.batch) / asked
        if not self._streams.alternatives(view.id, proposer).likely:
            further += (rounds[limit] - rounds[0]) / limit
        at = self._rates.get(view.id) or rate(len(self._views), rounds[0])
        return min(MOST_LEAST, at * further)

    def _limit(self, view: StreamView) -> int:
        """Drafts that may be asked: the window's, and no more rows than twice the widest that was timed.

        A trial's at least: a proposer may have nothing to say in fewer, and no wider round would ever be timed.
        """
        return min(view.most, max(TRIAL, 2 * self._prices.alone.widest - 1))

    def _round_seconds(self, drafts: int) -> list[float]:
        """Seconds of this round with 0 to ``drafts`` drafts in it."""
        if len(self._rounds) <= drafts:
            self._rounds = self._prices.by_drafts(self._views.values(), max(drafts, MOST_DRAFTS))
        return self._rounds[: drafts + 1]

    def _plain_is_due(self) -> bool:
        """Whether to leave this round plain, to time it: one round in ``STALE``, whoever is asked about it.

        Where another is queued behind it, that is the one that is timed.
        """
        if self._due is None:
            self._overdue = self._overdue + 1 if self._prices.stale(1) else 0
            self._due = self._overdue % STALE == 1
        return self._due

    def _unread(self, view: StreamView, proposer: int) -> int:
        """Context tokens to read first, where they are more than an ordinary step takes along."""
        unread = view.unread[proposer] if proposer < len(view.unread) else 0
        return unread if unread > READING else 0

    def _reading(self, view: StreamView, proposer: int) -> float:
        """Seconds of reading for each reply token that is left to repay it."""
        left = self._streams.left(view.context - view.prompt, view.left)
        return self._chains[proposer].read * self._unread(view, proposer) / left

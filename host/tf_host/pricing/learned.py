"""What rounds and drafts have taught, and what follows from it for one stream."""

from __future__ import annotations

from collections.abc import Sequence

from tf_host.lanes.depths import FORCED, READING, DraftSample, Offer, Outcome, RoundSample, StreamView
from tf_host.lanes.fence import Fence
from tf_host.pricing.chains import ChainCosts
from tf_host.pricing.leaves import Ranked, expected, ranked
from tf_host.pricing.prices import RoundPrices
from tf_host.pricing.streams import Streams
from tf_host.pricing.turn import Turn
from tf_plugins.rows import RowPlan

__all__ = ["FREE", "Learned"]

FREE = 0.02
"""Drafting that takes less than this share of a plain round is priced as free: asked for first, cut afterwards."""


class Learned:
    """Costs of rounds and of drafting, and how the streams' drafts fare.

    Args:
        plan: the served row plan.
        proposers: the proposers behind their fences, in the order they are asked.

    Attributes:
        prices: of rounds.
        chains: of drafting, by proposer.
        streams: acceptance, alternatives and probabilities.
    """

    def __init__(self, plan: RowPlan, proposers: Sequence[Fence]) -> None:
        self._proposers = proposers
        self.prices = RoundPrices(plan)
        self.chains = [ChainCosts(self.prices.plain) for _ in proposers]
        self.streams = Streams()

    def renew(self) -> None:
        """Before a round: proposers may report other costs, and plain rounds may have been timed."""
        for chain, proposer in zip(self.chains, self._proposers, strict=True):
            chain.reported = proposer.costs()
            chain.renew()

    def free(self, turn: Turn, proposer: int) -> bool:
        """Whether the deepest draft takes less than ``FREE`` of a plain round."""
        deepest = max((view.most for view in turn.views.values()), default=0)
        return self.chains[proposer].chain(deepest) < FREE * turn.seconds(0)[0]

    def unread(self, view: StreamView, proposer: int) -> float:
        """Seconds of reading the context first, where that is more than an ordinary step takes along."""
        unread = view.unread[proposer] if proposer < len(view.unread) else 0
        return self.chains[proposer].read * unread if unread > READING else 0.0

    def reading(self, view: StreamView, proposer: int) -> float:
        """Those seconds for each reply token that is left to repay them."""
        return self.unread(view, proposer) / self.left(view)

    def left(self, view: StreamView) -> float:
        """Reply tokens that are likely still to come."""
        return self.streams.left(view.context - view.prompt, view.left)

    def offered(self, turn: Turn, offer: Offer) -> Ranked:
        """An offer's rows; no more than its window holds, or than twice the widest that was timed."""
        if offer.proposer == FORCED:
            return ranked([[1.0]] * offer.tokens, offer.tokens)
        if offer.probabilities:
            calibration = self.streams.calibration(offer.stream, offer.proposer)
            if calibration.trusted:
                return ranked(calibration.chances(offer.probabilities), self._most(turn, offer))
        chances = self.streams.drafts(offer.stream, offer.proposer).acceptance.chances(offer.tokens)
        alternatives = self.streams.alternatives(offer.stream, offer.proposer).chances
        return ranked(expected(chances, alternatives, offer.beside), self._most(turn, offer))

    def likely(self, stream: int, proposer: int, most: int) -> Ranked:
        """The rows of a window that is not drafted yet, with as many alternatives as are likely."""
        chances = self.streams.drafts(stream, proposer).acceptance.chances(most)
        alternatives = self.streams.alternatives(stream, proposer).likely
        return ranked(expected(chances, alternatives, [len(alternatives)] * most), most)

    def record_draft(self, turn: Turn, sample: DraftSample) -> None:
        """Price the call, and note who has a draft now."""
        asked = turn.asked.get(sample.proposer, {})
        depths = tuple(
            offer.tokens if offer.probabilities else asked.get(offer.stream, offer.tokens) for offer in sample.offers
        )
        # A chain may have been longer than what is left of it in front of an end.
        if any(depths) and not any(offer.ended and offer.probabilities for offer in sample.offers):
            self.chains[sample.proposer].record(depths, sample.unread, sample.seconds)
        for offer in sample.offers:
            self.streams.asked(offer.stream, sample.proposer, offer.tokens > 0)
            if offer.tokens:
                turn.taken[offer.stream] = offer
            turn.told[offer.stream] = offer
            if offer.probabilities:
                self.streams.calibration(offer.stream, offer.proposer).offered(offer.probabilities)
            trial = (offer.stream, offer.proposer) in turn.trials
            if trial and (offer.tokens or not self.free(turn, sample.proposer)):
                self.streams.drafts(offer.stream, sample.proposer).aside.tried()

    def record_round(self, turn: Turn, sample: RoundSample) -> None:
        """Price the round, and judge the drafts."""
        if sample.seconds is not None:
            self.prices.record(sample, sample.seconds)
        for outcome in sample.outcomes:
            if (view := turn.views.get(outcome.stream)) is not None:
                landed = outcome.kept + outcome.leaf + 1
                self.streams.replied(outcome.stream, outcome.context - view.prompt + landed)
            if outcome.proposer is not None and outcome.proposer != FORCED:
                self._judge(turn, outcome, outcome.proposer)

    def _judge(self, turn: Turn, outcome: Outcome, proposer: int) -> None:
        """Drafts and alternatives were compared with the target's own tokens, those that were cut off too."""
        stream, kept, offer = outcome.stream, outcome.kept, turn.told.get(outcome.stream)
        self.streams.judged(stream, proposer, kept + (outcome.next == 0), missed=outcome.next not in (None, 0))
        if offer is None or stream not in turn.views:
            return
        if (cost := turn.trials.get((stream, proposer))) is not None and kept + outcome.leaf >= cost:
            self.streams.drafts(stream, proposer).aside.paid()
        if outcome.next and kept < len(offer.beside):
            self.streams.alternatives(stream, proposer).judge(offer.beside[kept], max(0, outcome.next))
        if offer.probabilities:
            self.streams.calibration(stream, proposer).judge(offer.probabilities, kept, outcome.next)

    def _most(self, turn: Turn, offer: Offer) -> int:
        return max(offer.tokens, turn.limit(turn.views[offer.stream]))

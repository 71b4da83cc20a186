"""The depths of every round, priced by what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_host.lanes.depths import FORCED, Cut, DraftSample, Offer, RoundSample, StreamView
from tf_host.lanes.fence import Fence
from tf_host.pricing.asking import Asking
from tf_host.pricing.learned import Learned
from tf_host.pricing.trimming import trimmed
from tf_host.pricing.turn import Turn
from tf_plugins.rows import RowPlan

__all__ = ["Pricing"]


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
        self._learned = Learned(plan, proposers)
        self._asking = Asking(self._learned, len(proposers))
        self._turn = Turn(self._learned.prices)

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        """Most drafts of each stream: all that its window holds, or none before any plain round was timed."""
        return self._plan(streams, follows=True)

    def _plan(self, streams: Sequence[StreamView], *, follows: bool) -> Mapping[int, int]:
        prices = self._learned.prices
        prices.plain.now += 1
        self._turn = Turn(prices, streams, follows=follows)
        for view in streams:
            self._learned.streams.open(view.id, sampled=view.temperature > 0)
        if not prices.alone.widest or (len(streams) == 1 and prices.alone.age(1) is None):
            return {}
        self._learned.renew()
        return {view.id: view.most for view in streams}

    def choose(self, stream: StreamView, proposer: int) -> int:
        """The stream's depth; all streams that lack a draft are priced when the first of them is asked about."""
        turn = self._turn
        if proposer not in turn.asked:
            lacking = [view for view in turn.views.values() if view.most and view.id not in turn.taken]
            if turn.alone:
                turn.asked[proposer] = {view.id: self._asking.alone(turn, view, proposer) for view in lacking}
            else:
                turn.asked[proposer] = self._asking.together(turn, lacking, proposer)
        return turn.asked[proposer].get(stream.id, 0)

    def least(self, stream: StreamView, proposer: int) -> float:
        """As the proposer would put it; 0 for one that gives no probabilities."""
        calibration = self._learned.streams.calibration(stream.id, proposer)
        return calibration.said(self._asking.least(self._turn, stream, proposer)) if calibration.used else 0.0

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        """Cut offers to the rows that pay."""
        for offer in offers:
            if offer.proposer != FORCED:
                most = max(offer.beside, default=0)
                self._learned.streams.alternatives(offer.stream, offer.proposer).given(most)
            self._turn.told[offer.stream] = offer
        return trimmed(self._learned, self._turn, offers)

    def free(self, proposer: int) -> bool:
        """Whether the deepest draft takes next to nothing."""
        return self._learned.free(self._turn, proposer)

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        """Whether drafts are expected to pay, reading included."""
        most = self._plan(streams, follows=False)
        return streams[-1].id in most and self.choose(streams[-1], proposer) > 0

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        """Price reading."""
        self._learned.chains[proposer].record_read(tokens, seconds)

    def record_draft(self, sample: DraftSample) -> None:
        """Price the call, and note who has a draft now."""
        self._learned.record_draft(self._turn, sample)

    def record_round(self, sample: RoundSample) -> None:
        """Price the round, and judge the drafts."""
        self._learned.record_round(self._turn, sample)

    def forget(self, stream: int) -> None:
        """A stream ended."""
        self._learned.streams.close(stream)

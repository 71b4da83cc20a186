"""The round that is priced: its streams, what they were offered so far, and what it would take."""

from __future__ import annotations

from collections.abc import Sequence

from tf_host.lanes.depths import MOST_DRAFTS, Offer, StreamView
from tf_host.pricing.prices import RoundPrices

__all__ = ["TRIAL", "Turn"]

TRIAL = 3
"""Most drafts of the round that a stream standing aside tries."""


class Turn:
    """What is decided about one round, from its plan to what came of it.

    Args:
        prices: of rounds.
        streams: all that take part.

    Attributes:
        views: the streams.
        asked: depths by proposer and stream.
        taken: offers that have drafts, by stream.
        told: by stream the offer whose outcome will be told: the last proposer's, or what a grammar forces.
        trials: by stream and proposer, where a stream stands aside and drafts in this round to see whether it pays by
            now: plain rounds that it costs.
        rates: expected tokens a second by stream, where it has the round to itself.
        lands: tokens and seconds by depth, of a stream and a proposer.
        follows: whether there will be such a round; else it is only asked about.
        plain_due: whether the round is left plain, to time it; ``None`` before anybody wanted to know.
    """

    def __init__(self, prices: RoundPrices, streams: Sequence[StreamView] = (), *, follows: bool = True) -> None:
        self.follows = follows
        self.views = {view.id: view for view in streams}
        self.asked: dict[int, dict[int, int]] = {}
        self.taken: dict[int, Offer] = {}
        self.told: dict[int, Offer] = {}
        self.trials: dict[tuple[int, int], float] = {}
        self.rates: dict[int, float] = {}
        self.lands: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
        self.plain_due: bool | None = None if follows else False
        self._prices = prices
        self._seconds: list[float] = []

    @property
    def alone(self) -> bool:
        """Whether a stream has the round to itself."""
        return len(self.views) == 1

    def seconds(self, drafts: int) -> list[float]:
        """Seconds of this round with 0 to ``drafts`` drafts in it."""
        if len(self._seconds) <= drafts:
            self._seconds = self._prices.by_drafts(self.views.values(), max(drafts, MOST_DRAFTS))
        return self._seconds[: drafts + 1]

    def limit(self, view: StreamView) -> int:
        """Drafts that may be asked: the window's, and no more rows than twice the widest that was timed.

        A trial's at least: a proposer may have nothing to say in fewer, and no wider round would ever be timed.
        """
        return min(view.most, max(TRIAL, 2 * self._prices.alone.widest - 1))

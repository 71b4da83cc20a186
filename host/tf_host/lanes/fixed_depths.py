"""Depths that are the same in every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_host.lanes.depths import Cut, DraftSample, Offer, RoundSample, StreamView

__all__ = ["FixedDepths", "NoDrafts"]


class FixedDepths:
    """The same depth for every stream: one number for the first proposers, another for the last.

    Args:
        depths: most drafts by proposer index; the last number also serves every later proposer.
        beside: alternatives that are verified in each of the first places, where there are so many.
    """

    def __init__(self, *depths: int, beside: tuple[int, ...] = ()) -> None:
        self._depths = depths or (0,)
        self._beside = beside

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        most = max(self._depths)
        return {stream.id: min(most, stream.most) for stream in streams}

    def choose(self, stream: StreamView, proposer: int) -> int:
        return self._depths[min(proposer, len(self._depths) - 1)]

    def least(self, stream: StreamView, proposer: int) -> float:
        return 0.0

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        if not self._beside:
            return {}
        return {offer.stream: Cut(offer.tokens, tuple(map(min, self._beside, offer.beside))) for offer in offers}

    def free(self, proposer: int) -> bool:
        return False

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        return self.choose(streams[-1], proposer) > 0

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        return None

    def record_draft(self, sample: DraftSample) -> None:
        return None

    def record_round(self, sample: RoundSample) -> None:
        return None

    def forget(self, stream: int) -> None:
        return None


class NoDrafts(FixedDepths):
    """Plain rounds only."""

    def __init__(self) -> None:
        super().__init__(0)

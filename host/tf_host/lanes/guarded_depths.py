"""Depths behind a guard: how deep to draft is no reason for a reply to fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tf_host.lanes.depths import Cut, Depths, DraftSample, Offer, RoundSample, StreamView
from tf_host.lanes.faults import log_fault
from tf_host.lanes.fixed_depths import NoDrafts

__all__ = ["GuardedDepths"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class GuardedDepths:
    """Asks other depths, and drafts no more once they failed.

    Args:
        depths: that are asked until then.
    """

    def __init__(self, depths: Depths) -> None:
        self._depths = depths

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        return self._ask(lambda depths: depths.plan(streams))

    def choose(self, stream: StreamView, proposer: int) -> int:
        return self._ask(lambda depths: depths.choose(stream, proposer))

    def least(self, stream: StreamView, proposer: int) -> float:
        return self._ask(lambda depths: depths.least(stream, proposer))

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        return self._ask(lambda depths: depths.trim(offers))

    def free(self, proposer: int) -> bool:
        return self._ask(lambda depths: depths.free(proposer))

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        return self._ask(lambda depths: depths.asks(streams, proposer))

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        self._ask(lambda depths: depths.record_read(proposer, tokens, seconds))

    def record_draft(self, sample: DraftSample) -> None:
        self._ask(lambda depths: depths.record_draft(sample))

    def record_round(self, sample: RoundSample) -> None:
        self._ask(lambda depths: depths.record_round(sample))

    def forget(self, stream: int) -> None:
        self._ask(lambda depths: depths.forget(stream))

    def _ask(self, call: Callable[[Depths], T]) -> T:
        try:
            return call(self._depths)
        except Exception as error:
            log_fault(log, "pricing failed; replies stay the same, without drafts from now on; please report it", error)
            self._depths = NoDrafts()
            return call(self._depths)

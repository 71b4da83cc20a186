"""The drafter as a proposer: a cache a stream, drafts for all streams of a round in one call."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tf_llama.drafter.chain import Chain, Turn
from tf_llama.drafter.clock import Clock
from tf_llama.drafter.kept import LEAST, Kept
from tf_llama.drafter.slot import Slot
from tf_plugins.types import Costs, Draft, DraftRequest, Growth, Outcome

__all__ = ["LONGEST", "LlamaDrafter"]

LONGEST = 15
"""Most steps in a chain."""

AT_ONCE = 16
"""Most unread tokens that the first step of a chain takes along; where there are more, they are read before it."""


class LlamaDrafter:
    """Drafts with a smaller Llama. Engine thread only.

    Args:
        chain: runs the steps; owns the weights.
        name: the drafter's name, for people.
        context: positions that it can read.
        parallel: streams at once, and ended streams' caches that are kept; ``None`` for as many as fit.
    """

    name = "drafter"

    def __init__(self, chain: Chain, name: str, context: int, parallel: int | None) -> None:
        self.label = f"Llama drafter ({name})"
        self._chain: Chain | None = chain
        self._context = context
        self._kept = Kept(parallel)
        self._slots: dict[int, Slot] = {}
        self._clock = Clock()

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        capacity = self._capacity(context, tokens)
        old = self._kept.find(context) if capacity else None
        if old is not None and old.capacity >= capacity:
            return Growth(reused=old.nbytes)
        new = self._running.slot_bytes(capacity) if capacity else 0
        return Growth(new, reused=old.nbytes if old else 0)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        capacity = self._capacity(context, tokens)
        if not capacity:
            return
        old = self._kept.find(context)
        slot = old if old and old.capacity >= capacity else self._running.slot(capacity)
        if old:
            self._kept.remove(old)
            old.cut(old.shared(context))
            if slot is not old:
                slot.move(old)
        self._slots[stream] = slot

    def unread(self, stream: int, length: int) -> int:
        slot = self._slots.get(stream)
        return max(0, length - slot.length) if slot else 0

    def read(self, stream: int, context: Sequence[int], most: int) -> None:
        """Read on in a prompt; its last token is read with the first draft."""
        slot = self._slots.get(stream)
        if slot is None or not context:
            return
        try:
            unread = slot.settle(context)[:-1][:most]
            if max(unread, default=0) >= self._running.ids:
                del self._slots[stream]  # an id that it has no row for: it can never read on
            elif unread:
                self._read(slot, unread)
        except BaseException:
            self._slots.pop(stream, None)
            raise

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft | None]:
        turns: dict[int, Turn] = {}
        try:
            for request in requests:
                if turn := self._turn(request):
                    turns[request.stream] = turn
            drafts = dict(zip(turns, self._drafts(list(turns.values())), strict=True)) if turns else {}
        except BaseException:
            # A cache that was being written when something failed is not to be trusted, nor kept.
            for request in requests:
                self._slots.pop(request.stream, None)
            raise
        return [_cut(drafts[r.stream], r.end_ids) if r.stream in drafts else None for r in requests]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing: the next context says which drafts stood."""

    def close(self, stream: int) -> None:
        slot = self._slots.pop(stream, None)
        if slot and slot.length >= LEAST:
            self._kept.add(slot)

    def kept(self) -> int:
        return self._kept.nbytes

    def shed(self, room: int) -> int:
        return self._kept.shed(room)

    def costs(self) -> Costs:
        return self._clock.costs()

    def forget_costs(self) -> None:
        """Measure from here on."""
        self._clock = Clock()

    def release(self) -> None:
        self._slots.clear()
        self._kept.shed(0)
        if self._chain is not None:
            self._chain.release()
        self._chain = None

    @property
    def _running(self) -> Chain:
        if self._chain is None:
            raise RuntimeError("the drafter was released")
        return self._chain

    def _capacity(self, context: Sequence[int], tokens: int) -> int:
        """Positions of a stream's cache; 0 where the drafter stays silent, its own context behind it already."""
        return min(tokens, self._context) if len(context) <= self._context else 0

    def _turn(self, request: DraftRequest) -> Turn | None:
        """The stream's part in the call, all of its context but the last tokens read; ``None`` for silence."""
        slot = self._slots.get(request.stream)
        if slot is None or not request.context:
            return None
        # The last step reads position + most - 2; what stands of it goes into the cache later.
        most = min(request.most, LONGEST, min(self._context, slot.capacity) - request.position + 1)
        if most < 1:
            return None
        unread = slot.settle(request.context)
        if max(unread) >= self._running.ids:
            del self._slots[request.stream]  # an id that it has no row for: it can never read on
            return None
        if len(unread) > AT_ONCE:
            self._read(slot, unread[:-1])
            unread = unread[-1:]
        elif len(slot.recent) + len(unread) + most > self._running.tail:
            slot.flush()
        return Turn(slot, unread, most, request.seed, request.temperature, request.alternatives, request.least)

    def _read(self, slot: Slot, tokens: list[int]) -> None:
        started = time.perf_counter()
        slot.flush()
        self._running.read(slot, tokens)
        self._clock.read(time.perf_counter() - started, len(tokens))

    def _drafts(self, turns: list[Turn]) -> list[Draft]:
        """The draft of each turn, in its order; a chain runs the longest first, so that the others fall off its end."""
        order = sorted(range(len(turns)), key=lambda at: -turns[at].most)
        started = time.perf_counter()
        chained = self._running.draft([turns[at] for at in order])
        lengths = [len(draft.tokens) for draft in chained]
        steps = [sum(length > step for length in lengths) for step in range(max(lengths))]
        self._clock.chained(time.perf_counter() - started, steps)
        drafts = dict(zip(order, chained, strict=True))
        return [drafts[at] for at in range(len(turns))]


def _cut(draft: Draft, end_ids: frozenset[int]) -> Draft:
    """Nothing after an end token, and nothing in the place of what is not there."""
    places = 1 + next((at for at, token in enumerate(draft.tokens) if token in end_ids), len(draft.tokens) - 1)
    return Draft(draft.tokens[:places], draft.alternatives[:places], draft.probabilities[:places])

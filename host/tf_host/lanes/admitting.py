"""From the queue into a lane: what a stream would take, and making it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from tf_host.lanes.faults import log_fault
from tf_host.lanes.sources import Source
from tf_host.lanes.states import Entry, KeptStates
from tf_host.lanes.stream import Decoding, Stream
from tf_host.plugins.answers import refusal_fault
from tf_host.sampling import Drawer, Sampler
from tf_plugins.rows import RowPlan
from tf_plugins.types import Admission, Demand, Growth, Model, Refusal

_log = logging.getLogger(__name__)


class Admitting:
    """Asks the ledger for a stream, and allocates once it agrees.

    Args:
        model: the target.
        plan: the row plan.
        drawer: the server's draws.
        sources: the proposers, in order.
        admission: the owner of the ledger.
        states: the kept prompt states.
    """

    def __init__(
        self,
        model: Model,
        plan: RowPlan,
        drawer: Drawer,
        sources: Sequence[Source],
        admission: Admission,
        states: KeptStates,
    ) -> None:
        self._model = model
        self._plan = plan
        self._drawer = drawer
        self._sources = sources
        self._admission = admission
        self._states = states

    def refusal(self, stream: Stream) -> Refusal | None:
        """Why the stream could not be admitted even alone, if it could not."""
        refusal = self._admission.never(self._demand(stream, None, keeps=False))
        if refusal is not None and (fault := refusal_fault(refusal, of_request=True)):
            raise TypeError(f"the plugin that owns the ledger, in never: {fault}")
        return refusal

    def admit(self, stream: Stream) -> bool:
        """Give the stream a lane, or leave everything as it is; what allocation raises comes through."""
        return self._admission.admit(self._demand(stream, self._states.find(stream.request.prompt)))

    def save(self, stream: Stream) -> None:
        """Keep the prompt state that ends where the stream has read to, if one was planned and its bytes are there."""
        position = stream.decoding.saves.popleft()
        self._keep(stream, position, (position,))

    def save_cut_off(self, stream: Stream) -> None:
        """Keep what was read of a prompt whose client left: it may come again, and would be cut off again.

        The bytes are those promised to the longest state that will not be made now.
        """
        live = stream.live
        if live is not None and live.chunks and live.saves and live.cache.length:
            self._keep(stream, live.cache.length, reversed(live.saves))

    def _keep(self, stream: Stream, position: int, promised: Iterable[int]) -> None:
        """Keep a state in the bytes promised to the first of these positions that any were promised to."""
        try:
            if any(self._admission.keep(stream.number, self._model.state_bytes(one)) for one in promised):
                state = self._model.save(stream.decoding.cache, position)
                self._states.add(stream.request.prompt[:position], state)
        except Exception as error:
            # A state saves a later request time; this one needs nothing of it.
            log_fault(_log, f"request {stream.request.id}: a prompt state of {position} tokens was not kept", error)

    def release(self, stream: Stream) -> None:
        """The stream ended: close its proposers, drop its cache, give its bytes back."""
        for source in self._sources:
            source.close(stream.number)
        if stream.live is not None:
            stream.live = None
            self._admission.release(stream.number)

    def _demand(self, stream: Stream, entry: Entry | None, *, keeps: bool = True) -> Demand:
        opening: list[Source] | None = None
        cache = self._model.cache_bytes(stream.most_positions)

        def growth() -> Mapping[str, Growth]:
            nonlocal opening
            opening, found = [], dict[str, Growth]()
            room = max(0, self._admission.budget - cache)
            for source in self._sources if stream.request.draft else ():
                bytes_ = source.growth(stream.request.prompt, stream.most_positions, room)
                if bytes_ is not None:
                    opening.append(source)
                    found[source.name] = bytes_
                    room -= bytes_.new  # what is left never makes a stream wait that would fit alone
            return found

        def allocate(restore: object | None) -> None:
            if opening is None:  # a ledger that does not ask for growth
                growth()
            self._allocate(stream, cast(Entry | None, restore), opening or ())

        return Demand(
            stream=stream.number,
            tokens=stream.most_positions,
            cache=cache,
            allocate=allocate,
            growth=growth,
            restore=entry,
            restore_bytes=0 if entry is None else entry.nbytes,
            keep=[self._model.state_bytes(n) for n in self._saves(stream, entry)] if keeps else (),
        )

    def _saves(self, stream: Stream, entry: Entry | None) -> Sequence[int]:
        start = 0 if entry is None else entry.length
        return self._states.plan_saves(stream.request.prompt, stream.request.boundaries, start)

    def _allocate(self, stream: Stream, entry: Entry | None, sources: Sequence[Source]) -> None:
        request = stream.request
        try:
            cache = self._model.make_cache(stream.most_positions)
            if entry is not None:
                self._model.restore(cache, entry.state)
            for source in sources:
                source.open(stream.number, request.prompt, stream.most_positions)
            stream.live = Decoding(
                cache=cache,
                sampler=Sampler(self._drawer, request.sampling, request.prompt, request.logprobs),
                reader=request.reader(),
                grammar=None if request.grammar is None else request.grammar(),
                chunks=deque(self._plan.chunks(request.prompt, cache.length)),
                saves=deque(sorted(self._saves(stream, entry))),
            )
        except BaseException:
            for source in sources:
                source.close(stream.number)
            raise
        stream.cached = cache.length

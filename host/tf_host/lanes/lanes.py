"""The lanes: requests in, rounds until they are done."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tf_host.lanes.admitting import Admitting
from tf_host.lanes.catching_up import CatchingUp
from tf_host.lanes.depths import MOST_ALTERNATIVES, Depths
from tf_host.lanes.drafting import Drafting
from tf_host.lanes.endings import Observer, Observers, log_end, reply_done, stream_done
from tf_host.lanes.faults import log_fault
from tf_host.lanes.fence import Fence
from tf_host.lanes.fixed_depths import FixedDepths
from tf_host.lanes.reading import PromptReading
from tf_host.lanes.refusing import SHUTTING_DOWN, queue_full, refused, unfit
from tf_host.lanes.rounds import Rounds
from tf_host.lanes.sources import Source
from tf_host.lanes.states import KeptStates, NoStates
from tf_host.lanes.stream import Client, Stream, StreamFault
from tf_host.lanes.totals import Snapshot, Totals
from tf_host.lanes.windows import Landed
from tf_host.requests import Delta, Event, Failed, GenerateRequest
from tf_host.sampling import Drawer
from tf_plugins.errors import Refused
from tf_plugins.rows import RowPlan
from tf_plugins.types import Admission, Model, Proposer, TakesLeaves

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the lanes go by.

    Attributes:
        queue: most requests that may wait.
        decode_share: share of the time that replies keep while prompts are read, at least 0 and below 1.
        log_ends: whether the end of each stream is a line of the log.
    """

    queue: int = 64
    decode_share: float = 0.25
    log_ends: bool = True


class Lanes:
    """Streams through shared rounds. ``submit`` and ``snapshot`` may be called from any thread, the rest from one.

    Args:
        model: the target, with ``plan`` in use.
        plan: the row plan.
        drawer: draws from the target's logits.
        admission: the owner of the ledger.
        proposers: asked for drafts in this order; their names differ (``tf_host.plugins`` sees to it).
        depths: how deep to draft.
        states: the kept prompt states.
        observers: told of every round and end.
        limits: what the lanes go by.
    """

    def __init__(
        self,
        model: Model,
        plan: RowPlan,
        drawer: Drawer,
        admission: Admission,
        *,
        proposers: Sequence[Proposer | Fence] = (),
        depths: Depths | None = None,
        states: KeptStates | None = None,
        observers: Sequence[Observer] = (),
        limits: Limits | None = None,
    ) -> None:
        sources = [Source(index, proposer, drawer.vocab) for index, proposer in enumerate(proposers)]
        self._plan = plan
        self._sources = sources
        self._limits = limits or Limits()
        self._admission = admission
        self._depths = depths or FixedDepths(15, 3)
        alternatives = MOST_ALTERNATIVES if isinstance(model, TakesLeaves) and model.takes_leaves else 0
        drafting = Drafting(sources, self._depths, plan, alternatives)
        self._rounds = Rounds(model, plan, drafting, sources, self._depths)
        self._states = states or NoStates()
        self._admitting = Admitting(model, plan, drawer, sources, admission, self._states)
        self._catching_up = CatchingUp(sources, drafting, self._depths, plan.grid)
        self._reading_prompts = PromptReading(model, self._admitting, self._catching_up, self._limits.decode_share)
        self._observers = Observers(observers)
        self._totals = Totals(ledger=dict(admission.used()))
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._inbox: deque[Stream] = deque()
        self._open = True
        self._waiting: deque[Stream] = deque()
        self._reading: list[Stream] = []
        self._decoding: list[Stream] = []
        self._head_must_wait = False
        self._unsent: list[tuple[Client, Event]] = []

    def submit(self, request: GenerateRequest, client: Client) -> None:
        """Queue a request; where it cannot queue, its client gets one ``Failed`` instead."""
        with self._lock:
            waiting = len(self._inbox) + len(self._waiting)
            # Those that can have a lane at once do not wait.
            most = self._limits.queue + self._admission.parallel - len(self._reading) - len(self._decoding)
            answer = SHUTTING_DOWN if not self._open else queue_full(self._limits.queue) if waiting >= most else None
            if answer is None:
                self._inbox.append(Stream(next(self._numbers), request, client, time.perf_counter()))
        if answer is not None:
            client.send(answer)

    def step(self) -> bool:
        """One turn: let requests in, read a chunk, make a round; ``False`` when there is nothing left to do."""
        self._take_in()
        self._let_go()
        self._admit()
        if self._reading and self._reading_prompts.due(bool(self._decoding)):
            self._read_chunk()
        if self._decoding:
            self._round()
        # Copies of kept states are written while nobody waits, a piece a turn.
        return bool(self._inbox or self._waiting or self._reading or self._decoding) or self._states.idle()

    def snapshot(self) -> Snapshot:
        """The lanes now."""
        totals = self._totals
        return Snapshot(
            waiting=len(self._inbox) + len(self._waiting),
            reading=len(self._reading),
            decoding=len(self._decoding),
            parallel=self._admission.parallel,
            queue=self._limits.queue,
            rounds=totals.rounds,
            tokens=totals.tokens,
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            finished=dict(totals.finished),
            drafted=dict(totals.drafted),
            kept=dict(totals.kept),
            budget=self._admission.budget,
            ledger=totals.ledger,
            last_error=totals.last_error,
            failures={source.name: source.failures for source in self._sources if source.failures.count},
        )

    def close(self) -> None:
        """Refuse what comes from now on, and what still waits; streams with a lane go on."""
        with self._lock:
            self._open = False
        self._take_in()
        for stream in list(self._waiting):
            self._leave(stream, "error", SHUTTING_DOWN)

    def end_all(self, event: Failed = SHUTTING_DOWN) -> None:
        """End every stream with ``event``, each whatever happens to the others."""
        with self._lock:
            self._waiting.extend(self._inbox)
            self._inbox.clear()
        for stream in [*self._waiting, *self._reading, *self._decoding]:
            try:
                self._leave(stream, "error", event)
            except BaseException as error:
                log_fault(_log, f"stream {stream.number} was ended, and not all of it freed", error)
                stream.client.send(event)

    def fail_all(self, error: BaseException) -> None:
        """End every stream because of a fault that belongs to none of them."""
        self._totals.last_error = f"the lanes failed: {type(error).__name__}: {error}"
        self.end_all(Failed("the server failed while making this reply"))

    def _take_in(self) -> None:
        while self._inbox:
            with self._lock:  # a count of both never misses the stream, nor counts it twice
                stream = self._inbox.popleft()
                self._waiting.append(stream)
            try:
                answer = unfit(stream, self._plan.context, self._admitting)
            except Exception as error:
                self._fail([stream], "admission", error)
                continue
            if answer is not None:
                self._leave(stream, "error", answer)

    def _let_go(self) -> None:
        for stream in [*self._waiting, *self._reading, *self._decoding]:
            if stream.client.cancelled:
                self._admitting.save_cut_off(stream)
                self._leave(stream, "cancelled", Failed("the client left", code="cancelled", status=499))

    def _admit(self) -> None:
        """Give lanes to the head of the queue; a head that does not fit waits until a stream ends."""
        while self._waiting and not self._head_must_wait:
            if len(self._reading) + len(self._decoding) >= self._admission.parallel:
                return
            stream = self._waiting[0]
            self._send()  # what follows may take a while
            try:
                admitted = self._admitting.admit(stream)
                if admitted:
                    self._catching_up.begin(stream, self._decoding)
            except Exception as error:
                self._fail([stream], "admission", error)
                continue
            if admitted:
                stream.admitted = time.perf_counter()
                self._waiting.popleft()
                (self._decoding if self._reading_prompts.done(stream) else self._reading).append(stream)
                self._totals.ledger = dict(self._admission.used())
            elif self._reading or self._decoding:
                self._head_must_wait = True
            else:
                # Nothing will ever end and make room, so waiting would be for ever.
                self._fail([stream], "admission", MemoryError("no room although nothing else runs"))

    def _read_chunk(self) -> None:
        stream = self._reading_prompts.next(self._reading)
        self._send()
        try:
            self._reading_prompts.read(stream)
        except Exception as error:
            self._fail([stream], "reading the prompt", error)
            return
        if self._reading_prompts.done(stream):
            self._reading.remove(stream)
            self._decoding.append(stream)
            self._totals.ledger = dict(self._admission.used())

    def _round(self) -> None:
        streams = list(self._decoding)
        started = time.perf_counter()
        try:
            round = self._rounds.plan(streams)
            whole, calm = len(round.windows) == len(streams), not self._reading
            drawn = self._rounds.run(round, whole=whole, calm=calm, meanwhile=self._send)
            landed = self._rounds.conclude(round, drawn)
        except StreamFault as fault:
            self._fail_one(fault.stream, fault.cause)
            return
        except Exception as error:
            self._rounds.stop()
            self._fail(streams, "a round", error)
            return
        done = self._rounds.done(round, landed)
        self._totals.round(done, sum(len(each.tokens) for each in landed))
        for each in landed:
            self._deliver(each)
        self._observers.round_done(done)
        self._reading_prompts.repay(time.perf_counter() - started if self._reading else None)

    def _deliver(self, landed: Landed) -> None:
        stream = landed.window.stream
        first, stream.first = not stream.first, stream.first or time.perf_counter()
        if landed.error is not None:
            self._fail_one(stream, landed.error)
            return
        self._unsent.append((stream.client, Delta(landed.text, tuple(landed.tokens))))
        if first:
            self._send()  # nobody waits longer for a reply to begin
        if landed.reason is not None:
            self._leave(stream, landed.reason, reply_done(stream, landed.reason))

    def _send(self) -> None:
        """Send what clients are to be told.

        Of a round's tokens they are told while the next one runs: whoever writes them out would else take the
        interpreter's lock from the thread that prepares it.
        """
        unsent, self._unsent = self._unsent, []
        for client, event in unsent:
            client.send(event)

    def _fail_one(self, stream: Stream, error: Exception) -> None:
        """One stream's own failure; ``Refused`` is what its request asked for, and no fault of the server."""
        if isinstance(error, Refused):
            self._leave(stream, "error", refused(error.refusal))
        else:
            self._fail([stream], "decoding", error)

    def _fail(self, streams: Sequence[Stream], where: str, error: Exception) -> None:
        message = f"{where} failed: {type(error).__name__}: {error}"
        self._totals.last_error = message
        log_fault(_log, message, error)
        for stream in streams:
            self._leave(stream, "error", Failed(f"the server failed while making this reply ({where})"))

    def _leave(self, stream: Stream, reason: str, event: Event) -> None:
        """The end of a stream, whatever the reason: its bytes go back before anybody is told."""
        for streams in (self._waiting, self._reading, self._decoding):
            if stream in streams:
                streams.remove(stream)
        self._rounds.settle(stream)
        try:
            self._admitting.release(stream)
            self._totals.ledger = dict(self._admission.used())
        except BaseException as error:  # whatever the ledger does, its client is told
            log_fault(_log, f"releasing stream {stream.number} failed", error)
        self._depths.forget(stream.number)
        self._head_must_wait = False
        done = stream_done(stream, reason, event.message if isinstance(event, Failed) else None)
        self._totals.stream(done)
        self._unsent.append((stream.client, event))
        self._send()
        self._observers.stream_done(done)
        if self._limits.log_ends:
            waiting = len(self._inbox) + len(self._waiting)
            log_end(stream, done, self._totals.ledger, self._admission.budget, waiting)

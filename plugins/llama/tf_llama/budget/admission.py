"""Admission of a stream: four steps, in this order and no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tf_llama.budget.kept import KeptCaches
from tf_llama.budget.ledger import DRAFTERS, KEPT, STATES, STREAMS, Ledger
from tf_llama.budget.sizes import gib, most_tokens
from tf_plugins.types import Demand, Growth, PromptStates, Refusal, Shedding


@dataclass(slots=True)
class _Admitted:
    """What one stream holds; ``reserved`` are prompt states that it may still keep, one a number."""

    cache: int
    drafters: int
    reserved: list[int] = field(default_factory=list)


class StreamAdmission:
    """Owns the ledger and admits streams. Engine thread only, except ``never``.

    Args:
        budget: bytes for everything that grows.
        parallel: streams at once.
        bytes_for: bytes that a stream of so many tokens takes, its drafter cache included.
        shedding: proposers whose kept caches give way first, by name, in the order that they are asked.
        states: the kept prompt states.
        states_limit: most bytes of prompt states, or ``None`` for what the budget leaves idle.
    """

    def __init__(
        self,
        budget: int,
        parallel: int,
        bytes_for: Callable[[int], int],
        shedding: Mapping[str, Shedding],
        states: PromptStates,
        states_limit: int | None = None,
    ) -> None:
        self.budget = budget
        self.parallel = parallel
        self._kept = KeptCaches(shedding)
        self.ledger = Ledger(budget, {KEPT: self._kept.nbytes, STATES: states.nbytes})
        self._bytes_for = bytes_for
        self._states = states
        self._states_limit = budget if states_limit is None else min(states_limit, budget)
        self._admitted: dict[int, _Admitted] = {}

    def never(self, demand: Demand) -> Refusal | None:
        """A refusal for a stream that could not be admitted even alone, with everything kept shed."""
        needed = self._bytes_for(demand.tokens)
        if needed <= self.budget:
            return None
        fits = most_tokens(self._bytes_for, self.budget, demand.tokens)
        return Refusal(
            name="context_length_exceeded",
            reason=(
                f"prompt and reply may reach {demand.tokens} tokens and take {gib(needed)} of memory, "
                f"and the server's budget of {gib(self.budget)} holds {fits} tokens"
            ),
            hint="shorten the prompt, ask for fewer tokens, or start the server with a larger --memory-gib",
        )

    def admit(self, demand: Demand) -> bool:
        """Admit and allocate, or return ``False``: the stream waits and nothing was touched."""
        if demand.stream in self._admitted:
            raise ValueError(f"stream {demand.stream} is admitted already")
        growth = self._fit(demand)
        if growth is None:
            return False
        room = self._room(demand, growth)
        restore = self._protect(demand, room)
        self._trim(room, restore)
        self._make(demand, growth, restore)
        self._reserve(demand)
        return True

    def keep(self, stream: int, nbytes: int) -> bool:
        """Whether a prompt state of ``nbytes``, one of the demand's ``keep``, was reserved and may be made now."""
        admitted = self._admitted.get(stream)
        # A smaller state would take the promise of one that is more wanted and comes later.
        if admitted is None or nbytes not in admitted.reserved:
            return False
        admitted.reserved.remove(nbytes)
        return True

    def release(self, stream: int) -> None:
        """The stream ended and its caches are gone; a stream that holds nothing is no error."""
        admitted = self._admitted.pop(stream, None)
        if admitted is not None:
            self.ledger.give({STREAMS: admitted.cache, DRAFTERS: admitted.drafters})

    def used(self) -> Mapping[str, int]:
        """Bytes by kind; what is reserved for prompt states is not used yet, see ``reserved``."""
        return {STREAMS: 0, DRAFTERS: 0} | self.ledger.used()

    def reserved(self) -> int:
        """Bytes promised to prompt states that admitted streams may still keep."""
        return sum(sum(admitted.reserved) for admitted in self._admitted.values())

    # Step 1: the peak against the ledger, kept drafter caches shed first.

    def _fit(self, demand: Demand) -> Mapping[str, Growth] | None:
        """What the proposers will take, once it fits beside the other streams; ``None`` when it cannot."""
        if len(self._admitted) >= self.parallel:
            return None
        bare = self.ledger.taken() + self._bytes_for(demand.tokens)
        growth = demand.growth()
        if self._room(demand, growth) >= 0:
            return growth
        # Shedding that cannot help would throw warm caches away each time that a waiting stream is tried again.
        if bare > self.budget:
            return None
        for name in self._kept:
            while (room := self._room(demand, growth)) < 0:
                if self._kept.shed(name, max(0, self._kept.kept(name) + room)) <= 0:
                    break
                growth = demand.growth()
        return growth if self._room(demand, growth) >= 0 else None

    # Step 2: the room that the peak leaves, and whether the restore entry can stay in it.

    def _room(self, demand: Demand, growth: Mapping[str, Growth]) -> int:
        """Bytes for prompt states beside the stream's peak; negative when the peak itself does not fit."""
        peak = demand.cache + sum(one.new + one.copy for one in growth.values())
        return self.budget - self.ledger.taken() - self._kept.nbytes() - peak

    def _protect(self, demand: Demand, room: int) -> object | None:
        """The entry to start from, or ``None`` once it was dropped because it cannot stay beside the peak."""
        if demand.restore is not None and demand.restore_bytes > room:
            self._states.drop(demand.restore)
            return None
        return demand.restore

    # Step 3: kept prompt states down to that room.

    def _trim(self, room: int, restore: object | None) -> None:
        """Old states go first, then promises to keep new ones, the latest promise first."""
        self._states.trim(max(0, room - self.reserved()), restore)
        over = self._states.nbytes() + self.reserved() - room
        for admitted in reversed(self._admitted.values()):
            while over > 0 and admitted.reserved:
                over -= admitted.reserved.pop()

    # Step 4: only now is anything allocated.

    def _make(self, demand: Demand, growth: Mapping[str, Growth], restore: object | None) -> None:
        """Book the peak, allocate, and book what the stream holds from then on."""
        made = sum(one.new for one in growth.values())
        copies = sum(one.copy for one in growth.values())
        kept = {name: self._kept.kept(name) for name in self._kept}
        peak = {STREAMS: demand.cache, DRAFTERS: made + copies}
        self.ledger.take(peak)
        try:
            demand.allocate(restore)
        except BaseException:
            self.ledger.give(peak)
            raise
        self.ledger.give({DRAFTERS: copies})
        # A cache taken over as it is moves from the proposer's kept bytes to the stream's; where opening the
        # proposer failed, it did not move.
        moved = sum(
            min(one.reused, max(0, kept[name] - self._kept.kept(name)))
            for name, one in growth.items()
            if not one.new and name in kept
        )
        self.ledger.adopt(DRAFTERS, moved)
        self._admitted[demand.stream] = _Admitted(demand.cache, made + moved)

    def _reserve(self, demand: Demand) -> None:
        """Promise room for the states that the stream would keep, the most wanted first, as far as it goes.

        The copy and the old drafter cache are gone by now, so there is more room than the peak left. The entry that
        the stream started from has done its work too: were it held on to, a chat that fills the room could never
        replace it by its longer next state.
        """
        room = min(self._states_limit, self.budget - self.ledger.taken() - self._kept.nbytes()) - self.reserved()
        reserved: list[int] = []
        for nbytes in demand.keep:
            if sum(reserved) + nbytes <= room:
                reserved.append(nbytes)
        if reserved:
            self._states.trim(room - sum(reserved), None)
            self._admitted[demand.stream].reserved = reserved

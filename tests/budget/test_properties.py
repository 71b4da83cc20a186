"""Random lives of a server's ledger against what the recorder says really exists."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.budget.fakes import FakeDrafter, FakeState, FakeStates, Recorder, Target, admission
from tf_llama.budget.admission import StreamAdmission
from tf_llama.budget.ledger import STREAMS, LedgerError

BUDGET = 100


@dataclass(frozen=True)
class Submit:
    """A request: its cache, its drafter cache, whose kept drafter cache it would take over, states it would keep."""

    cache: int
    drafts: int
    key: str
    keep: tuple[int, ...]
    restore: int | None
    fails: bool


@dataclass(frozen=True)
class Act:
    """Something that happens to the n-th queued or running stream, if there is one."""

    what: str
    which: int


submits = st.builds(
    Submit,
    cache=st.integers(1, 60),
    drafts=st.integers(0, 40),
    key=st.sampled_from("abc"),
    keep=st.lists(st.integers(1, 30), max_size=3).map(lambda sizes: tuple(sorted(sizes, reverse=True))),
    restore=st.none() | st.integers(0, 5),
    fails=st.integers(0, 9).map(lambda n: n == 0),
)
acts = st.builds(
    Act, what=st.sampled_from(["turn", "turn", "turn", "finish", "leave", "keep"]), which=st.integers(0, 5)
)
lives = st.lists(submits | acts, max_size=40)
earlier_states = st.lists(st.integers(1, 25), max_size=4)


class Server:
    """FIFO lanes over an admission; ``check`` compares the ledger with the recorder after each event."""

    def __init__(self, kind: type[StreamAdmission], parallel: int, earlier: Sequence[int]) -> None:
        self.recorder = Recorder()
        self.states = FakeStates(self.recorder, *map(FakeState, earlier))
        self.drafter = FakeDrafter(self.recorder)
        self.target = Target(self.recorder, self.drafter)
        self.target.states = self.states
        self.sizes: dict[int, int] = {}
        self.admits = admission(
            BUDGET, self.drafter, self.states, lambda stream: self.sizes[stream], parallel=parallel, kind=kind
        )
        self.queue: deque[tuple[int, Submit]] = deque()
        self.running: dict[int, Submit] = {}
        self.served: list[int] = []
        self.next = 0

    def submit(self, request: Submit) -> None:
        self.next += 1
        # A fresh stream's bytes; the fake counts a stream's "tokens" as its own number.
        self.sizes[self.next] = request.cache + request.drafts
        if self.admits.never(self.target.demand(self.next, 0, 0, tokens=self.next)) is None:
            self.queue.append((self.next, request))

    def turn(self) -> bool:
        """Try the head of the queue; whether it went."""
        if not self.queue:
            return False
        stream, request = self.queue[0]
        entries = self.states.entries
        restore = entries[request.restore % len(entries)] if request.restore is not None and entries else None
        demand = self.target.demand(
            stream, request.cache, request.drafts, request.key, restore, request.keep, tokens=stream
        )
        before = (self.recorder.now, list(entries), self.drafter.kept())
        self.drafter.fail = request.fails
        try:
            admitted = self.admits.admit(demand)
        except MemoryError:
            self.queue.popleft()
            return True
        finally:
            self.drafter.fail = False
        if not admitted:
            assert before == (self.recorder.now, entries, self.drafter.kept()), "a stream that waits touches nothing"
            return False
        self.queue.popleft()
        self.running[stream] = request
        self.served.append(stream)
        return True

    def finish(self, stream: int) -> None:
        self.running.pop(stream)
        self.target.end(stream, self.admits)

    def act(self, act: Act) -> None:
        running = list(self.running)
        if act.what == "turn":
            self.turn()
        elif act.what == "leave" and self.queue:
            del self.queue[act.which % len(self.queue)]
        elif act.what == "finish" and running:
            self.finish(running[act.which % len(running)])
        elif act.what == "keep" and running:
            stream = running[act.which % len(running)]
            for nbytes in reversed(self.running[stream].keep):
                if self.admits.keep(stream, nbytes):
                    self.states.add(FakeState(nbytes))

    def check(self) -> None:
        used = self.admits.used()
        assert min(used.values()) >= 0
        assert self.admits.reserved() >= 0
        assert sum(used.values()) == self.recorder.now, "the ledger says what exists"
        assert sum(used.values()) + self.admits.reserved() <= BUDGET
        assert self.recorder.peak <= BUDGET
        assert used[STREAMS] == sum(request.cache for request in self.running.values())

    def drain(self) -> None:
        """Let everything end: each waiting stream gets its turn, in order, and nothing is left behind."""
        while self.queue or self.running:
            while self.turn():
                self.check()
            if self.running:
                self.finish(next(iter(self.running)))
            else:
                assert not self.queue, "the head of the queue starves beside an empty server"
            self.check()
        assert self.served == sorted(self.served), "first come, first served"
        self.drafter.shed(0)
        self.states.trim(0, None)
        assert self.recorder.now == 0, "back at the baseline"
        assert sum(self.admits.used().values()) + self.admits.reserved() == 0


def live(kind: type[StreamAdmission], parallel: int, earlier: Sequence[int], life: Sequence[Submit | Act]) -> None:
    server = Server(kind, parallel, earlier)
    for event in life:
        if isinstance(event, Submit):
            server.submit(event)
        else:
            server.act(event)
        server.check()
    server.drain()


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(life=lives, parallel=st.integers(1, 4), earlier=earlier_states)
def test_the_ledger_is_true_and_nobody_starves(
    life: Sequence[Submit | Act], parallel: int, earlier: Sequence[int]
) -> None:
    live(StreamAdmission, parallel, earlier, life)


# Controls: each fault is found by the same lives.


class KeepsAByte(StreamAdmission):
    def release(self, stream: int) -> None:
        held = stream in self._admitted
        super().release(stream)
        if held:
            self.ledger.take({STREAMS: 1})


class GivesTwice(StreamAdmission):
    def release(self, stream: int) -> None:
        if admitted := self._admitted.get(stream):
            self.ledger.give({STREAMS: admitted.cache})
        super().release(stream)


class TrimsLast(StreamAdmission):
    def admit(self, demand):  # type: ignore[no-untyped-def]
        growth = self._fit(demand)
        if growth is None:
            return False
        room = self._room(demand, growth)
        restore = self._protect(demand, room)
        self._make(demand, growth, restore)
        self._trim(room, restore)
        self._reserve(demand)
        return True


class ReservesBlindly(StreamAdmission):
    def _reserve(self, demand):  # type: ignore[no-untyped-def]
        self._admitted[demand.stream].reserved = list(demand.keep)


class ProtectsNothing(StreamAdmission):
    def _trim(self, room: int, restore: object | None) -> None:
        super()._trim(room, None)


class NeverSheds(StreamAdmission):
    def _fit(self, demand):  # type: ignore[no-untyped-def]
        growth = demand.growth()
        return growth if self._room(demand, growth) >= 0 and len(self._admitted) < self.parallel else None


class ShedsOnceWithoutAsking(StreamAdmission):
    """Sheds, and goes on with the growth of before."""

    def _fit(self, demand):  # type: ignore[no-untyped-def]
        growth = demand.growth()
        if super()._fit(demand) is None:
            return None
        return growth


class IgnoresTheCopy(StreamAdmission):
    def _room(self, demand, growth):  # type: ignore[no-untyped-def]
        return super()._room(demand, growth) + sum(one.copy for one in growth.values())


class LosesBytesOnFailure(StreamAdmission):
    def _make(self, demand, growth, restore):  # type: ignore[no-untyped-def]
        try:
            super()._make(demand, growth, restore)
        except MemoryError:
            self.ledger.take({STREAMS: demand.cache})
            raise


CONTROLS: list[type[StreamAdmission]] = [
    KeepsAByte,
    GivesTwice,
    TrimsLast,
    ReservesBlindly,
    ProtectsNothing,
    NeverSheds,
    ShedsOnceWithoutAsking,
    IgnoresTheCopy,
    LosesBytesOnFailure,
]


def _search(kind: type[StreamAdmission]) -> Callable[[], None]:
    @settings(
        max_examples=1_000,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(life=lives, parallel=st.integers(1, 4), earlier=earlier_states)
    def search(life: Sequence[Submit | Act], parallel: int, earlier: Sequence[int]) -> None:
        live(kind, parallel, earlier, life)

    return search


@pytest.mark.parametrize("control", CONTROLS)
def test_control(control: type[StreamAdmission]) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        _search(control)()

"""Kept states, a drafter and a target cache that allocate from a recorder, so that tests can follow the peak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tf_llama.budget.admission import StreamAdmission
from tf_plugins.types import Demand, Growth


@dataclass
class Recorder:
    """Bytes that exist now, and the most that ever did."""

    now: float = 0
    peak: float = 0

    def take(self, nbytes: float) -> None:
        self.now += nbytes
        self.peak = max(self.peak, self.now)

    def give(self, nbytes: float) -> None:
        self.now -= nbytes
        assert self.now >= 0


@dataclass(eq=False)
class FakeState:
    nbytes: int
    name: str = ""


class FakeStates:
    """Kept prompt states, least recently used first."""

    def __init__(self, recorder: Recorder, *entries: FakeState) -> None:
        self.recorder, self.entries = recorder, list(entries)
        self.trims: list[tuple[int, object | None]] = []
        recorder.take(self.nbytes())

    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self.entries)

    def add(self, entry: FakeState) -> None:
        self.recorder.take(entry.nbytes)
        self.entries.append(entry)

    def trim(self, room: int, protect: object | None) -> int:
        self.trims.append((room, protect))
        before = self.nbytes()
        for entry in [entry for entry in self.entries if entry is not protect]:
            if self.nbytes() > room:
                self.drop(entry)
        return before - self.nbytes()

    def drop(self, entry: object) -> int:
        if entry not in self.entries:
            return 0
        self.entries.remove(entry)
        self.recorder.give(entry.nbytes)
        return entry.nbytes


@dataclass(eq=False)
class Slot:
    """A drafter cache: of whom, how large, and how much of it holds tokens."""

    key: str
    nbytes: int
    filled: int


@dataclass
class FakeDrafter:
    """Keeps a freed cache for the next stream of the same key; grows it through a copy of what it holds."""

    recorder: Recorder
    kept_slots: list[Slot] = field(default_factory=list)
    live: dict[int, Slot] = field(default_factory=dict)
    fail: bool = False
    sheds: int = 0

    def keep(self, slot: Slot) -> None:
        self.recorder.take(slot.nbytes)
        self.kept_slots.append(slot)

    def _found(self, key: str) -> Slot | None:
        return next((slot for slot in self.kept_slots if slot.key == key), None)

    def growth(self, key: str, nbytes: int) -> Growth:
        slot = self._found(key)
        if slot is None:
            return Growth(new=nbytes)
        if slot.nbytes >= nbytes:
            return Growth(reused=slot.nbytes)
        return Growth(new=nbytes, reused=slot.nbytes, copy=slot.filled)

    def open(self, stream: int, key: str, nbytes: int) -> None:
        growth = self.growth(key, nbytes)
        slot = self._found(key)
        if slot is not None and not growth.new:
            self.kept_slots.remove(slot)
            self.live[stream] = slot
            return
        self.recorder.take(growth.new)
        self.recorder.take(growth.copy)
        if self.fail:
            self.recorder.give(growth.new + growth.copy)
            raise MemoryError("the drafter cache")
        self.recorder.give(growth.copy)
        if slot is not None:
            self.kept_slots.remove(slot)
            self.recorder.give(slot.nbytes)
        self.live[stream] = Slot(key, nbytes, nbytes // 2)

    def close(self, stream: int) -> None:
        if slot := self.live.pop(stream, None):
            self.kept_slots.append(slot)

    def kept(self) -> int:
        return sum(slot.nbytes for slot in self.kept_slots)

    def shed(self, room: int) -> int:
        self.sheds += 1
        before = self.kept()
        while self.kept() > room:
            self.recorder.give(self.kept_slots.pop(0).nbytes)
        return before - self.kept()


class Target:
    """Streams' own caches, and the demand that a lane would make."""

    def __init__(self, recorder: Recorder, drafter: FakeDrafter, token_bytes: tuple[int, int] = (1, 1)) -> None:
        self.recorder, self.drafter = recorder, drafter
        self.cache_token, self.drafter_token = token_bytes
        self.caches: dict[int, int] = {}
        self.restored: list[object | None] = []
        self.states: FakeStates | None = None

    def demand(
        self,
        stream: int,
        cache: int,
        drafts: int,
        key: str = "a",
        restore: FakeState | None = None,
        keep: tuple[int, ...] = (),
        tokens: int = 1,
    ) -> Demand:
        def allocate(entry: object | None) -> None:
            assert entry is None or self.states is None or entry in self.states.entries, "restored from what is gone"
            self.recorder.take(cache)
            self.caches[stream] = cache
            try:
                self.drafter.open(stream, key, drafts)
            except BaseException:
                self.free(stream)
                raise
            self.restored.append(entry)

        return Demand(
            stream=stream,
            tokens=tokens,
            cache=cache,
            allocate=allocate,
            growth=lambda: {"drafter": self.drafter.growth(key, drafts)},
            restore=restore,
            restore_bytes=restore.nbytes if restore else 0,
            keep=keep,
        )

    def free(self, stream: int) -> None:
        self.recorder.give(self.caches.pop(stream, 0))

    def end(self, stream: int, admission: StreamAdmission) -> None:
        self.drafter.close(stream)
        self.free(stream)
        admission.release(stream)


def admission(
    budget: int,
    drafter: FakeDrafter,
    states: FakeStates,
    bytes_for: Callable[[int], int] = lambda tokens: 0,
    parallel: int = 2,
    states_limit: int | None = None,
    kind: type[StreamAdmission] = StreamAdmission,
) -> StreamAdmission:
    return kind(budget, parallel, bytes_for, {"drafter": drafter}, states, states_limit)

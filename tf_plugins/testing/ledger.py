"""Everything that an admission decides about, made of counters: streams, a drafter's caches, kept prompt states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tf_plugins.types import Admission, Demand, Growth


class NoStates:
    """Keeps no prompt states."""

    def nbytes(self) -> int:
        """Nothing."""
        return 0

    def trim(self, room: int, protect: object | None) -> int:
        """Nothing to drop."""
        return 0

    def drop(self, entry: object) -> int:
        """Nothing to drop."""
        return 0


@dataclass(eq=False)
class Kept:
    """Bytes kept under a name: a drafter's cache, or a prompt state."""

    name: str
    nbytes: int


class Live:
    """Bytes that are allocated now.

    Attributes:
        budget: what they must never pass.
        nbytes: all of them together.
        peak: the most that they ever were.
    """

    def __init__(self) -> None:
        self.budget = 0
        self.nbytes = 0
        self.peak = 0

    def take(self, nbytes: int) -> None:
        """Allocate."""
        self.nbytes += nbytes
        self.peak = max(self.peak, self.nbytes)
        assert self.nbytes <= self.budget, f"{self.nbytes} bytes are allocated, and the budget is {self.budget}"

    def give(self, nbytes: int) -> None:
        """Free."""
        self.nbytes -= nbytes


class States:
    """Kept prompt states, the least recently used first."""

    def __init__(self, live: Live) -> None:
        self.entries: list[Kept] = []
        self._live = live

    def nbytes(self) -> int:
        """Bytes of all kept states."""
        return sum(entry.nbytes for entry in self.entries)

    def trim(self, room: int, protect: object | None) -> int:
        """Drop states until at most ``room`` bytes are kept, never ``protect``."""
        before = self.nbytes()
        for entry in [entry for entry in self.entries if entry is not protect]:
            if self.nbytes() > room:
                self.drop(entry)
        return before - self.nbytes()

    def drop(self, entry: object) -> int:
        """Drop one state."""
        if not isinstance(entry, Kept) or entry not in self.entries:
            return 0
        self.entries.remove(entry)
        self._live.give(entry.nbytes)
        return entry.nbytes

    def add(self, nbytes: int) -> Kept:
        """Keep a new state."""
        self._live.take(nbytes)
        self.entries.append(Kept("state", nbytes))
        return self.entries[-1]


class Drafter:
    """A drafter's caches: one a stream, kept for the next stream of the same name once it ends."""

    def __init__(self, live: Live) -> None:
        self.caches: list[Kept] = []
        self._live = live
        self._open: dict[int, Kept] = {}

    def growth(self, name: str, nbytes: int) -> Growth:
        """What opening takes, in each of its three forms."""
        found = self._found(name)
        if found is None:
            return Growth(new=nbytes)
        if found.nbytes >= nbytes:
            return Growth(reused=found.nbytes)
        return Growth(new=nbytes, reused=found.nbytes, copy=found.nbytes // 2)

    def open(self, stream: int, name: str, nbytes: int) -> None:
        """Make, take over or grow a cache."""
        growth, found = self.growth(name, nbytes), self._found(name)
        self._live.take(growth.new)
        self._live.take(growth.copy)
        self._live.give(growth.copy)
        if found is not None:
            self.caches.remove(found)
        if found is not None and not growth.new:
            self._open[stream] = found
            return
        if found is not None:
            self._live.give(found.nbytes)
        self._open[stream] = Kept(name, nbytes)

    def close(self, stream: int) -> None:
        """The stream ended; its cache is kept."""
        if (cache := self._open.pop(stream, None)) is not None:
            self.caches.append(cache)

    def kept(self) -> int:
        """Bytes kept for streams that ended."""
        return sum(cache.nbytes for cache in self.caches)

    def shed(self, room: int) -> int:
        """Free kept bytes until at most ``room`` are kept."""
        before = self.kept()
        while self.kept() > room:
            self._live.give(self.caches.pop(0).nbytes)
        return before - self.kept()

    def _found(self, name: str) -> Kept | None:
        return next((cache for cache in self.caches if cache.name == name), None)


@dataclass
class World:
    """Streams that come and go under an admission.

    Attributes:
        live: every byte.
        states: the kept prompt states.
        drafter: the drafter's caches.
        token: bytes of a token in a stream's cache; the drafter's takes a quarter.
        streams: bytes of the caches of the streams that are admitted.
    """

    live: Live
    states: States
    drafter: Drafter
    token: int
    streams: dict[int, int] = field(default_factory=dict)

    @classmethod
    def made(cls, token: int) -> World:
        """An empty one."""
        live = Live()
        return cls(live, States(live), Drafter(live), token)

    def bytes_for(self, tokens: int) -> int:
        """Bytes that a stream of ``tokens`` takes, its drafter cache included."""
        return tokens * (self.token + self.token // 4)

    def demand(
        self,
        stream: int,
        tokens: int,
        *,
        name: str = "a",
        restore: Kept | None = None,
        keep: Sequence[int] = (),
        fails: bool = False,
    ) -> Demand:
        """What the lanes would ask for the stream; with ``fails``, allocation raises ``MemoryError`` half way."""
        cache, drafts = tokens * self.token, tokens * (self.token // 4)

        def allocate(entry: object | None) -> None:
            assert entry is None or entry in self.states.entries, "a dropped state was handed back to start from"
            self.live.take(cache)
            if fails:
                self.live.give(cache)
                raise MemoryError("planted")
            self.streams[stream] = cache
            self.drafter.open(stream, name, drafts)

        return Demand(
            stream=stream,
            tokens=tokens,
            cache=cache,
            allocate=allocate,
            growth=lambda: {"drafter": self.drafter.growth(name, drafts)},
            restore=restore,
            restore_bytes=restore.nbytes if restore else 0,
            keep=keep,
        )

    def end(self, admission: Admission, stream: int) -> None:
        """The stream ends, as the lanes end one."""
        self.drafter.close(stream)
        self.live.give(self.streams.pop(stream))
        admission.release(stream)

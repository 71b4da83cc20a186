"""What the lanes have done so far, for /health and the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_host.lanes.faults import Failures
from tf_plugins.types import RoundDone, StreamDone


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The lanes at one moment.

    Attributes:
        waiting, reading, decoding: streams in each state.
        parallel: streams at once.
        queue: most that may wait.
        rounds: rounds so far.
        tokens: reply tokens so far.
        prompt_tokens: prompt tokens of finished streams, of which ``cached_tokens`` came from kept states.
        finished: streams by how they ended.
        drafted: drafts verified, by source.
        kept: drafts kept, by source.
        budget: bytes for everything that grows.
        ledger: bytes by kind.
        last_error: the last thing that failed, or ``None``.
        failures: what is remembered of the proposers that failed, by source.
    """

    waiting: int
    reading: int
    decoding: int
    parallel: int
    queue: int
    rounds: int
    tokens: int
    prompt_tokens: int
    cached_tokens: int
    finished: Mapping[str, int]
    drafted: Mapping[str, int]
    kept: Mapping[str, int]
    budget: int
    ledger: Mapping[str, int]
    last_error: str | None
    failures: Mapping[str, Failures] = field(default_factory=dict)


@dataclass(slots=True)
class Totals:
    """Counters, written by the engine thread and copied by any."""

    rounds: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    drafted: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    ledger: Mapping[str, int] = field(default_factory=dict)
    last_error: str | None = None

    def round(self, done: RoundDone, tokens: int) -> None:
        """A round landed ``tokens``."""
        self.rounds += 1
        self.tokens += tokens
        self.drafted.update(done.drafted)
        self.kept.update(done.kept)

    def stream(self, done: StreamDone) -> None:
        """A stream ended."""
        self.finished[done.reason] += 1
        self.prompt_tokens += done.prompt_tokens
        self.cached_tokens += done.cached_tokens

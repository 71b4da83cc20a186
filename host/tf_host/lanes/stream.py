"""One request being decoded."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tf_host.lanes.sources import Source
from tf_host.requests import Event, GenerateRequest
from tf_host.requests.request import Grammar, Reader
from tf_host.sampling import Sampler
from tf_plugins.types import Cache


class Client(Protocol):
    """The client's end of a stream (``tf_host.requests.Handle``)."""

    cancelled: bool

    def send(self, event: Event) -> None:
        """Deliver an event; never blocks, never raises."""


class StreamFault(Exception):
    """Something that belongs to one stream alone failed; the others go on."""

    def __init__(self, stream: Stream, cause: Exception) -> None:
        super().__init__(str(cause))
        self.stream = stream
        self.cause = cause


@dataclass(slots=True)
class Decoding:
    """What a stream holds from admission to its end.

    Attributes:
        cache: its keys and values; ``cache.length`` is the position of the pending token.
        sampler: its draws.
        reader: its text.
        grammar: its constraint, or ``None``.
        chunks: chunks of the prompt still to read, as positions.
        saves: positions to keep a prompt state at, ascending.
        behind: proposers that read its prompt before it decodes, those still to read.
    """

    cache: Cache
    sampler: Sampler
    reader: Reader
    grammar: Grammar | None
    chunks: deque[tuple[int, int]]
    saves: deque[int]
    behind: list[Source] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Stream:
    """One request from submission to its last event.

    Attributes:
        number: the stream's id for proposers, admission and depths.
        request: what to make.
        client: who is told.
        submitted: when it came, by ``time.perf_counter``; so are the other times.
        tokens: prompt and reply; the last one is pending: drawn, and not yet a row of the cache.
        admitted: when its lane was given.
        first: when its first reply token landed.
        live: what it holds while admitted.
        cached: prompt tokens taken from a kept state.
        passed: turns in which another prompt was read first.
        told: when the last ``Reading`` event was sent.
        rounds: rounds that it took part in.
        drafted: drafts verified, by source.
        kept: drafts kept, by source.
    """

    number: int
    request: GenerateRequest
    client: Client
    submitted: float
    tokens: list[int] = field(init=False)
    admitted: float = 0.0
    first: float = 0.0
    live: Decoding | None = None
    cached: int = 0
    passed: int = 0
    told: float | None = None
    rounds: int = 0
    drafted: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt)

    @property
    def decoding(self) -> Decoding:
        """What it holds; an error before admission and after the end."""
        if self.live is None:
            raise RuntimeError(f"stream {self.number} holds nothing")
        return self.live

    @property
    def reply(self) -> int:
        """Reply tokens so far."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def left(self) -> int:
        """Reply tokens that may still come."""
        return self.request.max_tokens - self.reply

    @property
    def most_positions(self) -> int:
        """Positions that prompt and longest reply take."""
        return len(self.request.prompt) + self.request.max_tokens

    def feed(self, token: int) -> tuple[str, Literal["stop", "length"] | None]:
        """Add a token to the reply: text that is now safe to send, and why the reply ends with it, if it does."""
        reader = self.decoding.reader
        self.tokens.append(token)
        if token in self.request.end_ids:
            return reader.finish(), "stop"
        text, stopped = reader.feed(token)
        if stopped:
            return text, "stop"
        if self.left == 0:
            return text + reader.finish(), "length"
        return text, None

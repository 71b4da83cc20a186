"""Who may decode: the owner of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tf_plugins.types.proposer import Growth
from tf_plugins.types.refusal import Refusal


class PromptStates(Protocol):
    """The kept prompt states, as admission sees them."""

    def nbytes(self) -> int:
        """Bytes of all kept states."""

    def trim(self, room: int, protect: object | None) -> int:
        """Drop states until at most ``room`` bytes are kept, never ``protect``; returns the bytes freed.

        Superseded ones first, then the least recently used.
        """

    def drop(self, entry: object) -> int:
        """Drop one state; returns the bytes freed, 0 for one that is gone already."""


class Shedding(Protocol):
    """A proposer's kept caches, as admission sees them (``Proposer`` has both methods).

    The host stands between: neither method raises, and what a proposer was to free and did not is counted no longer.
    """

    def kept(self) -> int:
        """Bytes kept for streams that ended."""

    def shed(self, room: int) -> int:
        """Free kept bytes until at most ``room`` are kept; returns the bytes freed."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a start has to give, for the plugin that owns the ledger.

    Attributes:
        memory: bytes of the device's memory (RAM, or the GPU's recommended working set).
        weights: bytes of all loaded weights, target and drafter.
        limit: bytes given with ``--memory-gib``, or ``None``.
        states_limit: bytes given with ``--prompt-cache-gib``, or ``None``.
        context: tokens of the longest stream.
        parallel: streams at once, or ``None`` for as many as fit.
        stream_bytes: bytes that a stream of ``context`` tokens takes, its drafter cache included.
        bytes_for: the same for any number of tokens.
        shedding: proposers whose kept caches may be shed, by name.
        states: the kept prompt states.
    """

    memory: int
    weights: int
    limit: int | None
    states_limit: int | None
    context: int
    parallel: int | None
    stream_bytes: int
    bytes_for: Callable[[int], int]
    shedding: Mapping[str, Shedding]
    states: PromptStates


@dataclass(frozen=True, slots=True)
class Demand:
    """One stream's admission.

    Attributes:
        stream: the stream.
        tokens: positions that it may reach, prompt and reply.
        cache: bytes of its own cache.
        allocate: makes everything, ``allocate(restore)`` with ``None`` when the stream starts cold; what it
            made is gone again when it raises.
        growth: what its proposers take now, by proposer; asked again after kept caches were shed, because the
            one that the stream would take over may be among them.
        restore: the kept state that it would start from, found in the same turn, or ``None``.
        restore_bytes: bytes of ``restore``.
        keep: bytes of each prompt state that it would keep while its prompt is read, the most wanted first.
    """

    stream: int
    tokens: int
    cache: int
    allocate: Callable[[object | None], None]
    growth: Callable[[], Mapping[str, Growth]] = dict
    restore: object | None = None
    restore_bytes: int = 0
    keep: Sequence[int] = ()


class Admission(Protocol):
    """Owns the ledger; every growing byte goes through it.

    Its methods run on the engine thread; ``budget`` and ``parallel`` are read on others, too.
    """

    budget: int
    """Bytes for everything that grows."""

    parallel: int
    """Streams at once."""

    def never(self, demand: Demand) -> Refusal | None:
        """A refusal for a stream that could not be admitted even alone, with everything kept shed."""

    def admit(self, demand: Demand) -> bool:
        """Admit and allocate, or return ``False``: the stream waits, and nothing was made or trimmed.

        Kept drafter caches may have been shed by then; one that could not help is better kept.
        In this order: the peak against the ledger, kept drafter caches shed first; the room that the peak
        leaves, with a restore entry that cannot stay beside it dropped, else protected; kept prompt states
        trimmed to that room; only then allocation. Whatever ``allocate`` raises is raised again with every
        byte given back.
        """

    def keep(self, stream: int, nbytes: int) -> bool:
        """Whether a prompt state of ``nbytes``, one of the demand's ``keep``, was reserved and may be made now."""

    def release(self, stream: int) -> None:
        """The stream ended and its caches are gone (a proposer's kept cache is counted by ``kept``).

        Called after the proposers' ``close``. A stream that holds nothing is no error.
        """

    def used(self) -> Mapping[str, int]:
        """Bytes by kind: ``streams``, ``drafter caches``, ``kept drafter caches``, ``prompt states``."""

"""How deep each stream drafts in a round: the interface that pricing implements.

A round calls ``plan`` once with every stream that decodes, then ``choose`` for each stream that still lacks a draft, a
proposer at a time and in order, then ``trim`` with what was proposed. Afterwards it reports what it measured. Before a
plain round is queued behind another, ``plan`` and ``choose`` are asked in the same way, and whoever is ``free`` for
drafts. Nothing here can change a reply: a depth decides how many rows are verified, never what they compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "FORCED",
    "MOST_ALTERNATIVES",
    "MOST_DRAFTS",
    "NEITHER",
    "READING",
    "Cut",
    "Depths",
    "DraftSample",
    "Offer",
    "Outcome",
    "RoundSample",
    "StreamView",
]

MOST_DRAFTS = 15
"""Longest draft that is ever asked for."""

MOST_ALTERNATIVES = 3
"""Other tokens that a proposer is asked for in each draft's place, where the target takes leaves. Of 937 greedy tokens
of the demo pair 63% were the drafter's first choice, and 10%, 5% and 2% its second, third and fourth."""

READING = 16
"""Unread tokens past which a proposer has a context to read; fewer belong to an ordinary step."""

NEITHER = -1
"""In place of an alternative's number: the target's own token is none of those offered."""

FORCED = -1
"""In place of a proposer's index: tokens that a grammar forces."""


@dataclass(frozen=True, slots=True)
class StreamView:
    """One decoding stream, as the depth rule sees it before a round.

    Attributes:
        id: the stream.
        context: tokens so far, the pending one included; also the position of the first drafted token.
        prompt: how many of them are the prompt.
        left: reply tokens that may still come.
        most: drafts and leaves that its window can hold (bucket edge, band, ``left``, context); 0 where it may not
            draft.
        temperature: 0 for greedy.
        unread: context tokens that each proposer, by index, would have to read first.
    """

    id: int
    context: int
    prompt: int
    left: int
    most: int
    temperature: float
    unread: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """A valid proposal: ``tokens`` drafts for ``stream`` by the proposer of that index (or ``FORCED``).

    ``beside`` has how many alternatives it gives in each draft's place, for the first places or for all;
    ``probabilities`` what it says of every draft and its alternatives, or nothing; ``ended``: it is shorter than was
    asked for, and ends with an end token.
    """

    stream: int
    proposer: int
    tokens: int
    beside: tuple[int, ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """What of an offer is verified: its first ``tokens`` drafts, and so many alternatives in each of their places."""

    tokens: int
    beside: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round did for one stream; ``proposer`` is ``None`` where nothing was offered.

    Attributes:
        kept: drafts that stood.
        leaf: whether an alternative stood in place of the draft after them.
        next: which of the tokens offered for the place after ``kept``, verified or cut off, is the target's own there:
            0 for the draft, else an alternative's number, or ``NEITHER``. ``None`` where nothing was offered there, or
            no token was drawn.
    """

    stream: int
    context: int
    proposer: int | None
    drafted: int
    kept: int
    leaf: bool = False
    next: int | None = None


@dataclass(frozen=True, slots=True)
class DraftSample:
    """One call of one proposer: wall ``seconds`` for the tokens in ``offers`` (0 tokens: it proposed nothing).

    ``unread`` are the context tokens that it had not read before the call, all streams together.
    """

    proposer: int
    offers: tuple[Offer, ...]
    unread: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundSample:
    """One round, from the end of the one before to its own, what proposers took left out.

    Attributes:
        rows: real rows.
        padded: rows of each forward after padding; one entry a forward.
        seconds: wall time, or ``None`` where that says nothing of the round's own.
        outcomes: one a stream.
        queued: whether it was sent before the round before it was read.
    """

    rows: int
    padded: tuple[int, ...]
    seconds: float | None
    outcomes: tuple[Outcome, ...]
    queued: bool = False


class Depths(Protocol):
    """Decides depths and learns from rounds. Engine thread only."""

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        """Most drafts of each stream in this round; 0, or no entry, is a plain row."""

    def choose(self, stream: StreamView, proposer: int) -> int:
        """Most drafts to ask of this proposer now, after ``plan``; 0 does not ask it."""

    def least(self, stream: StreamView, proposer: int) -> float:
        """The chance of all of a draft's tokens below which the next one does not pay; asked after ``choose``."""

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        """What of each offer is verified, by stream; no entry is all of its drafts and no alternative."""

    def free(self, proposer: int) -> bool:
        """Whether asking this proposer costs next to nothing, so that it may be asked in vain."""

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        """Whether this proposer is likely to be asked for the last of the streams, which is about to join the others.

        It then reads the stream's context before that.
        """

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        """A proposer read so many context tokens, between rounds."""

    def record_draft(self, sample: DraftSample) -> None:
        """A proposer was called."""

    def record_round(self, sample: RoundSample) -> None:
        """A round is over."""

    def forget(self, stream: int) -> None:
        """A stream ended."""

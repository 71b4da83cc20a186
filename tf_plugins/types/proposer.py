"""What drafts: something that proposes a stream's next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

RESERVED_NAMES = frozenset({"target", "grammar"})
"""What tokens and drafts of the host's own are counted under."""


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """One stream's wish for drafts in a round.

    Attributes:
        stream: the id that ``open`` was called with.
        context: prompt and reply so far, the pending token last; a read-only view, valid for this call only. A
            proposer must survive an empty one.
        most: the most tokens to draft, at least 1.
        seed: the stream's seed, for drafting with the target's own noise.
        temperature: 0 for greedy.
        position: absolute position of the first drafted token, equal to ``len(context)``.
        end_ids: tokens after which a draft stops; empty under ``ignore_eos``.
        alternatives: most other tokens that can be verified in each draft's place: 3, or 0 where the target takes
            none.
        least: below it, the chance that all of a draft's tokens stand no longer pays for the next one. A proposer that
            knows its own probabilities may end a draft with the first token where their product is less.
    """

    stream: int
    context: Sequence[int]
    most: int
    seed: int
    temperature: float
    position: int
    end_ids: frozenset[int] = frozenset()
    alternatives: int = 0
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens, and what may stand in their places; one that breaks a rule is dropped whole.

    A target that takes alternatives verifies them beside the draft. Where the first draft that does not stand has the
    target's own token among its alternatives, that token and the one after it land with the round.

    Attributes:
        tokens: 1 to ``most`` ids, each below the target's vocabulary size; none at all is taken for no draft.
        alternatives: for each of the first places, or for all of them, other ids than the draft's, the likeliest
            first: at most ``DraftRequest.alternatives``, each once and below the vocabulary size; an end token may be
            one. The host verifies those that pay.
        probabilities: for every draft, or not at all: what the proposer itself takes for the probability of the draft
            and then of each of its alternatives, once the drafts before stand. The host learns what such numbers are
            worth from what became of earlier ones, and verifies what pays by them.
    """

    tokens: tuple[int, ...]
    alternatives: tuple[tuple[int, ...], ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one stream's draft.

    Attributes:
        stream: the stream.
        drafted: tokens verified, alternatives included.
        kept: how many of them stood; an alternative among them was the last.
    """

    stream: int
    drafted: int
    kept: int


@dataclass(frozen=True, slots=True)
class Costs:
    """A proposer's own measurements; 0 where it has none. The host times calls as well and prices the larger.

    Attributes:
        step: seconds for one more drafted token, for one stream alone.
        batch: seconds that each further stream adds to a step.
        read: seconds for one context token that it has not read yet.
    """

    step: float = 0.0
    batch: float = 0.0
    read: float = 0.0


@dataclass(frozen=True, slots=True)
class Growth:
    """What opening a stream takes from the ledger, in bytes; ``Growth()`` for nothing that grows with it.

    Three forms: a fresh cache ``Growth(new)``; a kept one that is large enough and is taken over as it is
    ``Growth(reused=...)``; a kept one that has to grow ``Growth(new, reused, copy)``.

    Attributes:
        new: bytes of the cache that is made, 0 when a kept one is taken over as it is.
        reused: bytes of the kept cache that is taken over, counted in ``kept`` until then. Where ``new`` is
            made too, the old cache is freed once its tokens are copied.
        copy: bytes of the old state's copy while it lives.
    """

    new: int = 0
    reused: int = 0
    copy: int = 0


class Proposer(Protocol):
    """Drafts for all streams of a round in one call. Every method runs on the engine thread.

    A draft never changes a reply: the target keeps only what its own draws agree with. One with an id outside the
    vocabulary, with more than ``most`` tokens, or with alternatives that nobody asked for, is dropped whole; its stream
    is asked for again in the next round.

    A proposer that raises, ``SystemExit`` included, or whose answer is of another kind, loses drafts or kept bytes and
    no more: in ``propose`` and ``observe`` the drafts of all streams of the call, in ``growth``, ``open``, ``read`` and
    ``unread`` those of the one stream, until their replies end. It is asked again for the streams that come next.
    Bytes that ``kept`` cannot say, or that ``shed`` does not free when it is told to, are not counted any more; without
    ``costs`` the host's own times price it; after ``close`` and ``release`` the host goes on. Sizes and counts are
    whole numbers of at least 0, times finite seconds of at least 0, and ``growth`` is no more than the budget leaves
    beside the stream's own cache.

    ``/health`` and ``/metrics`` count dropped drafts and failures by its name; the log has the first of each method in
    full, and says once that a call took more than a second, reading aside. Only at start-up does a failure in
    ``growth`` stop the start.
    """

    name: str
    """Names its drafts in the ``tf`` block, the metrics and the log; unique in a server.

    One line of printable text without quotes and backslashes, and neither ``target`` nor ``grammar``.
    """

    label: str
    """For the start-up line, for example ``"Llama drafter (<dir>)"``; one line of printable text."""

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        """Bytes that ``open`` will take for a stream of up to ``tokens`` positions; frees and makes nothing.

        With an empty context no kept cache is found: the bytes of a fresh one, by arithmetic alone. It is asked so at
        start-up and again for each request, before the request's own context is shown. A proposer that
        keeps plain Python objects reports the bytes that they will hold, as near as it can say; ``Growth()`` is fine
        where nothing that it holds grows with the stream.
        """

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        """Make the stream's state, evaluated, within what ``growth`` said. Called once, at admission."""

    def unread(self, stream: int, length: int) -> int:
        """Context tokens of ``length`` that it would have to read before it can draft."""

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Draft | None]:
        """One answer a request, in order; ``None`` proposes nothing.

        An answer may go unused: one that turns up while a plain round is under way is asked for again after it.
        """

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """What became of the drafts of the last round that drafted."""

    def close(self, stream: int) -> None:
        """The stream ended, however it ended. Its state may be kept, counted in ``kept``."""

    def kept(self) -> int:
        """Bytes kept for streams that ended."""

    def shed(self, room: int) -> int:
        """Free kept bytes until at most ``room`` are kept; returns the bytes freed.

        The least recently used first, and last of all the one that ``growth`` found last.
        """

    def costs(self) -> Costs:
        """Its own measurements so far."""

    def release(self) -> None:
        """Free everything; called once, before the target is released."""


@runtime_checkable
class ReadsAhead(Protocol):
    """What a proposer may have beside the methods of ``Proposer``: a way to read a prompt before the first round.

    Reading a long context takes time, and in ``propose`` all streams of the round wait for it. One that reads ahead is
    asked between rounds instead, a piece at a time, and neighbours keep their share of the time.
    """

    def read(self, stream: int, context: Sequence[int], most: int) -> None:
        """Read up to ``most`` more tokens of the context, within what ``growth`` said.

        Called after ``open`` and before the stream is drafted for, as often as ``unread`` falls and is more than a few;
        not at all where drafts are not expected to pay. ``context`` is the prompt, a view as in ``DraftRequest``. What
        it raises costs the stream its drafts. Whatever was not read is left to ``propose``.
        """

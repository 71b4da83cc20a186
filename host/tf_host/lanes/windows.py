"""One stream's part in a round: the rows to verify, and what of them landed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import mlx.core as mx

from tf_host.lanes.depths import NEITHER, Outcome
from tf_host.lanes.drafting import Proposal
from tf_host.lanes.stream import Stream, StreamFault
from tf_host.requests import TokenInfo
from tf_host.sampling import WindowDraws
from tf_plugins.types import Leaf

__all__ = ["TARGET", "Landed", "StreamWindow", "land", "masks", "outcome"]

TARGET = "target"
"""Names the tokens that nobody proposed."""


@dataclass(slots=True)
class StreamWindow:
    """One stream's pending token, drafts and leaves in a round, and their rows' masks where a grammar has any.

    ``offered`` is what the proposer had for it, of which maybe nothing is verified.
    """

    stream: Stream
    proposal: Proposal | None
    masks: list[mx.array | None] | None = None
    offered: Proposal | None = None

    @classmethod
    def of(cls, stream: Stream, proposal: Proposal | None) -> StreamWindow:
        """The window of a stream for which something was proposed, or not."""
        if proposal is None:
            return cls(stream, None)
        return cls(stream, proposal if proposal.tokens else None, offered=proposal.offered or proposal)

    @property
    def drafts(self) -> tuple[int, ...]:
        return () if self.proposal is None else self.proposal.tokens

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return () if self.proposal is None else self.proposal.leaves

    @property
    def alternatives(self) -> tuple[tuple[int, ...], ...]:
        return () if self.proposal is None else self.proposal.alternatives

    @property
    def rows(self) -> int:
        return 1 + len(self.drafts) + len(self.leaves)

    @property
    def proposed(self) -> int:
        """Drafts and leaves."""
        return self.rows - 1

    def row_after(self, row: int, token: int) -> int | None:
        """The row that saw ``token``, drawn after ``row``; ``None`` where nobody proposed it."""
        if row >= len(self.drafts):  # the last draft's row, or a leaf's
            return None
        if token == self.drafts[row]:
            return row + 1
        leaf = Leaf(row, token)
        return 1 + len(self.drafts) + self.leaves.index(leaf) if leaf in self.leaves else None


@dataclass(slots=True)
class Landed:
    """What a round gave one stream.

    Attributes:
        window: the stream's.
        tokens: that landed, in order.
        text: theirs.
        reason: why the reply ended, if it did.
        leaf: index of the leaf that stood, if one did.
        error: what its reader or grammar raised, if one did.
    """

    window: StreamWindow
    tokens: list[TokenInfo] = field(default_factory=list)
    text: str = ""
    reason: Literal["stop", "length"] | None = None
    leaf: int | None = None
    error: Exception | None = None

    @property
    def kept(self) -> int:
        """Drafts and leaves that stood."""
        return sum(token.source != TARGET for token in self.tokens)

    @property
    def drafts_kept(self) -> int:
        """Drafts that stood, without the leaf."""
        return self.kept - (self.leaf is not None)


def land(window: StreamWindow, draws: WindowDraws) -> Landed:
    """Add the target's own draws to the reply up to the first that nobody proposed, or that ends the reply."""
    landed = Landed(window)
    stream = window.stream
    stream.rounds += 1
    row: int | None = 0
    try:
        while row is not None:
            token = draws.token(row)
            following = window.row_after(row, token)
            source = TARGET if following is None or window.proposal is None else window.proposal.source
            landed.tokens.append(draws.info(row, token, source))
            if following is not None and following > len(window.drafts):
                landed.leaf = following - 1 - len(window.drafts)
            text, landed.reason = stream.feed(token)
            landed.tokens[-1] = replace(landed.tokens[-1], text=text)
            landed.text += text
            row = following if landed.reason is None else None
        ids = tuple(token.id for token in landed.tokens)
        stream.decoding.sampler.commit(ids)
        if stream.decoding.grammar is not None:
            stream.decoding.grammar.commit(ids)
    except Exception as error:
        landed.error = error
    if window.proposal is not None:
        stream.drafted[window.proposal.source] += window.proposed
        stream.kept[window.proposal.source] += landed.kept
    return landed


def outcome(landed: Landed) -> Outcome:
    """As depths see it."""
    stream, window = landed.window.stream, landed.window
    return Outcome(
        stream=stream.number,
        context=len(stream.tokens) - len(landed.tokens),
        proposer=None if window.offered is None else window.offered.proposer,
        drafted=len(window.drafts),
        kept=landed.drafts_kept,
        leaf=landed.leaf is not None,
        next=_next(landed),
    )


def _next(landed: Landed) -> int | None:
    """Where the target's own token stands in what was offered for the place after the drafts that stood."""
    offered, place = landed.window.offered, landed.drafts_kept
    if offered is None or place >= min(len(offered.tokens), len(landed.tokens)):
        return None
    beside = offered.alternatives[place] if place < len(offered.alternatives) else ()
    own, known = landed.tokens[place].id, (offered.tokens[place], *beside)
    return known.index(own) if own in known else NEITHER


def masks(window: StreamWindow) -> list[mx.array | None] | None:
    """What the grammar allows after each row, each along its own path.

    A draft or leaf whose path the grammar fails on goes, and what follows it: the reply may never take that path.
    """
    grammar = window.stream.decoding.grammar
    if grammar is None:
        return None
    try:
        allowed: list[object] = [grammar.mask(())]
    except Exception as error:
        raise StreamFault(window.stream, error) from error
    drafts = window.drafts
    with contextlib.suppress(Exception):
        allowed += (grammar.mask(drafts[:row]) for row in range(1, 1 + len(drafts)))
    stand, alternatives = drafts[: len(allowed) - 1], list[tuple[int, ...]]()
    for place, tokens in enumerate(window.alternatives[: len(stand)]):
        kept = []
        for token in tokens:
            with contextlib.suppress(Exception):
                allowed.append(grammar.mask((*stand[:place], token)))
                kept.append(token)
        alternatives.append(tuple(kept))
    if window.proposal is not None:
        window.proposal = replace(window.proposal, tokens=stand, alternatives=tuple(alternatives)) if stand else None
    return [None if mask is None else mx.array(cast(Any, mask)) for mask in allowed]

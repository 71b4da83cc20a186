"""A proposer as the lanes ask it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tf_plugins.tokens import Tokens
from tf_plugins.types import Draft, DraftRequest, Proposer

__all__ = ["ROOM", "Opened", "request"]

ROOM = 128
"""Positions of a stream past the context that it is opened with; no check goes on for longer."""


class Opened:
    """A proposer and the streams that a check has open in it, numbered from 1.

    Args:
        proposer: a fresh one.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer
        self._count = 0
        self._open: set[int] = set()

    def stream(self, context: Sequence[int]) -> int:
        """Open a stream, as the lanes do at admission: for its prompt, and as much of a reply as ``ROOM``."""
        self._count += 1
        self.proposer.open(self._count, Tokens(tuple(context)), len(context) + ROOM)
        self._open.add(self._count)
        return self._count

    def ask(self, *requests: DraftRequest) -> Sequence[Draft | None]:
        """One call for these streams."""
        answers = self.proposer.propose(list(requests))
        assert len(answers) == len(requests), f"{len(answers)} answers to {len(requests)} requests"
        return answers

    def draft(self, context: Sequence[int], most: int = 15, **fields: Any) -> tuple[int, ...]:
        """What is drafted for a new stream; empty for nothing."""
        (draft,) = self.ask(request(self.stream(context), context, most, **fields))
        return draft.tokens if draft else ()

    def close(self, stream: int) -> None:
        """End a stream."""
        self._open.discard(stream)
        self.proposer.close(stream)

    def end(self) -> None:
        """End every stream, and release the proposer."""
        for stream in sorted(self._open):
            self.close(stream)
        self.proposer.release()


def request(stream: int, context: Sequence[int], most: int = 15, **fields: Any) -> DraftRequest:
    """A stream's wish for drafts; ``context`` is copied, unless it is a view already."""
    shown = context if isinstance(context, Tokens) else Tokens(list(context))
    facts: dict[str, Any] = {"seed": 7, "temperature": 0.0, "position": len(context), **fields}
    return DraftRequest(stream=stream, context=shown, most=most, **facts)

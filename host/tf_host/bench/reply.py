"""One streamed reply, and when its parts arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Reply", "equal"]


@dataclass(slots=True)
class Reply:
    """What came back of one request. Times are seconds on one clock.

    Attributes:
        started: when it was sent.
        first: when the first tokens arrived, or ``None``.
        last: when the last tokens or the finish reason arrived.
        ended: when the stream ended.
        text: the text, reasoning included.
        ids: token ids, or ``None`` where the server gives none.
        first_tokens: tokens that came with the first of them.
        finish: the finish reason, or ``None`` when none came.
        counted: completion tokens of ``usage``, or ``None``.
        error: why it failed, or ``None``.
        tf: the server's own account of the reply, where it gives one.
    """

    started: float = 0.0
    first: float | None = None
    last: float = 0.0
    ended: float = 0.0
    text: str = ""
    ids: list[int] | None = None
    first_tokens: int = 1
    finish: str | None = None
    counted: int | None = None
    error: str | None = None
    tf: Mapping[str, Any] = field(default_factory=dict)
    pieces: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is all there: it ended with a reason, without an error, and with as many ids as were counted."""
        counted = self.ids is None or self.counted is None or len(self.ids) == self.counted
        return self.error is None and self.finish is not None and self.first is not None and counted

    @property
    def tokens(self) -> int:
        """Reply tokens: ids, else as counted by the server, else the pieces of text that came."""
        if self.ids is not None:
            return len(self.ids)
        return self.counted if self.counted is not None else self.pieces

    @property
    def seconds(self) -> float:
        """Wall time of the whole request, the prompt included."""
        return self.ended - self.started

    @property
    def rate(self) -> float | None:
        """Tokens a second after the first ones; ``None`` where nothing came after them, or it is not whole."""
        after = self.tokens - self.first_tokens
        if not self.whole or self.first is None or after <= 0 or self.last <= self.first:
            return None
        return after / (self.last - self.first)

    @property
    def problem(self) -> str | None:
        """Why it is not whole, in words."""
        if self.whole:
            return None
        if self.error is not None:
            return self.error
        if self.finish is None:
            return "cut off: the stream ended without a finish reason"
        if self.first is None:
            return "no tokens came"
        return f"cut off: {len(self.ids or [])} ids of {self.counted} tokens"


def equal(one: Reply | None, other: Reply | None) -> bool:
    """Whether both replies are whole and the same: by token ids where both have them, else by text.

    A missing, failed or truncated reply equals nothing, not even its like. The finish reasons must agree as well.
    """
    if one is None or other is None or not (one.whole and other.whole) or one.finish != other.finish:
        return False
    if one.ids is not None and other.ids is not None:
        return one.ids == other.ids
    return one.text == other.text

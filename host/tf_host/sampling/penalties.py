"""Repetition, presence and frequency penalties, along a row's own path."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_host.requests import Sampling


class Counts:
    """How often each id stands before a row: in prompt and reply for repetition, in the reply for the others.

    Immutable; ``after`` makes the counts of a longer path. A path holds committed tokens and the drafts before the row,
    never a rejected draft.

    Args:
        everywhere: ``[vocab]`` float32 counts of prompt and reply, or ``None`` where repetition is off.
        reply: ``[vocab]`` float32 counts of the reply, or ``None`` where presence and frequency are off.
    """

    __slots__ = ("everywhere", "reply")

    def __init__(self, everywhere: mx.array | None, reply: mx.array | None) -> None:
        self.everywhere = everywhere
        self.reply = reply

    @classmethod
    def of(cls, sampling: Sampling, prompt: Sequence[int], vocab: int) -> Counts | None:
        """The counts at the end of a prompt, or ``None`` where every penalty is off."""
        everywhere = reply = None
        if sampling.repetition != 1.0:
            everywhere = _add(mx.zeros(vocab), prompt)
        if sampling.presence != 0.0 or sampling.frequency != 0.0:
            reply = mx.zeros(vocab)
        return None if everywhere is None and reply is None else cls(everywhere, reply)

    def after(self, tokens: Sequence[int]) -> Counts:
        """The counts once ``tokens`` were added to the reply."""
        return Counts(
            None if self.everywhere is None else _add(self.everywhere, tokens),
            None if self.reply is None else _add(self.reply, tokens),
        )

    def penalise(self, logits: mx.array, sampling: Sampling) -> mx.array:
        """Penalised float32 logits ``[vocab]``: repetition, then frequency, then presence."""
        if self.everywhere is not None:
            rate = sampling.repetition
            seen = self.everywhere > 0
            logits = mx.where(seen, mx.where(logits > 0, logits / rate, logits * rate), logits)
        if self.reply is not None:
            logits = logits - sampling.frequency * self.reply
            logits = logits - sampling.presence * (self.reply > 0)
        return logits


def _add(counts: mx.array, tokens: Sequence[int]) -> mx.array:
    known = [token for token in tokens if token < counts.shape[0]]
    return counts.at[mx.array(known)].add(1.0) if known else counts

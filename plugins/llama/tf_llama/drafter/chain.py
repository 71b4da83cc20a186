"""Drafts of several streams, chained on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from tf_llama.drafter.form import Form
from tf_llama.drafter.forward import Forward, Part
from tf_llama.drafter.slot import Layout, Slot
from tf_plugins.types import Draft

__all__ = ["Chain", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One stream's part in a call.

    Attributes:
        slot: its cache.
        unread: tokens of the context to read first, at least the pending one.
        most: tokens to draft, at least 1.
        seed: for the noise.
        temperature: 0 for greedy.
        alternatives: most other ids to tell of each step.
    """

    slot: Slot
    unread: list[int]
    most: int
    seed: int
    temperature: float
    alternatives: int = 0


class Chain:
    """Runs the steps.

    Args:
        form: the device's operations and weights.
        forward: through them.
        noise: ``noise(seed, position)``, the target's own Gumbel noise, at least as long as the drafter's logits.
    """

    def __init__(self, form: Form, forward: Forward, noise: Callable[[int, int], Any]) -> None:
        self._form = form
        self._forward = forward
        self._noise = noise
        self._layout = self._laid(form)
        self.ids = form.weights.head.shape[1]

    @property
    def tail(self) -> int:
        """Recent positions that a slot keeps beside its cache."""
        return self._layout.tail

    def slot(self, capacity: int) -> Slot:
        """A fresh cache for ``capacity`` positions."""
        return Slot(self._layout, capacity)

    def slot_bytes(self, capacity: int) -> int:
        """Bytes of such a cache."""
        return self._layout.nbytes(capacity)

    def finite(self) -> bool:
        """Whether the weights compute numbers, by one row of logits."""
        part = self._part(self.slot(1), 1)
        rows = self._forward.rows(mx.array([0]), self._form.angles(mx.array([0])), [part])
        return bool(mx.all(mx.isfinite(self._forward.logits(rows))).item())

    def release(self) -> None:
        """Drop the weights."""
        del self._forward, self._form
        mx.clear_cache()

    def read(self, slot: Slot, tokens: Sequence[int]) -> None:
        """Read tokens into a slot whose tail is empty, a tail at a time."""
        for start in range(0, len(tokens), self.tail):
            chunk = list(tokens[start : start + self.tail])
            part = self._part(slot, len(chunk))
            angles = self._form.angles(mx.arange(slot.length, slot.length + len(chunk)))
            self._forward.rows(mx.array(chunk), angles, [part])
            mx.eval(part.tail)
            slot.wrote(part.tail, chunk, len(chunk))
            del part  # its views of the cache would make the flush a copy
            slot.flush()

    def draft(self, turns: Sequence[Turn]) -> list[Draft]:
        """Each stream's draft of ``most`` tokens, for streams in the order of ``most``, the largest first.

        Every step is sent off as it is made and takes its tokens from the one before; they come back together, once.
        There are no alternatives: only the best of a step leaves the device.
        """
        ends = [turn.slot.length + len(turn.unread) for turn in turns]
        parts = [self._part(turn.slot, len(turn.unread)) for turn in turns]
        angles, at = self._angles(turns), sum(len(turn.unread) for turn in turns)
        rows = self._forward.rows(mx.array([token for turn in turns for token in turn.unread]), angles[:at], parts)
        rows = rows if at == len(turns) else rows[mx.array(_lasts(turns))]
        steps = []
        for step in range(turns[0].most):
            tokens = self._drawn(self._forward.logits(rows), turns, [end + step for end in ends])
            mx.async_eval(tokens)
            steps.append(tokens)
            count = sum(turn.most > step + 1 for turn in turns)
            if not count:
                break
            for part in parts:
                part.rows = 1
            rows = self._forward.rows(tokens[:count], angles[at : at + count], parts[:count])
            at += count
        drawn: Any = mx.concatenate(steps).tolist()
        drafts: list[list[int]] = [[] for _ in turns]
        for tokens in steps:
            for draft in drafts[: tokens.shape[0]]:
                draft.append(drawn.pop(0))
        for turn, part, draft in zip(turns, parts, drafts, strict=True):
            turn.slot.wrote(part.tail, [*turn.unread, *draft[:-1]], len(turn.unread))
        return [Draft(tuple(draft)) for draft in drafts]

    def _laid(self, form: Form) -> Layout:
        weights = form.weights
        return Layout(len(weights.layers), 2 * weights.kv_heads, weights.head_size, form.tail, weights.dtype)

    def _part(self, slot: Slot, rows: int) -> Part:
        """A slot as a forward reads it; while that lives, the slot must not be flushed."""
        return Part.of(slot.cache, len(slot.tokens), slot.tail, len(slot.recent), rows)

    def _angles(self, turns: Sequence[Turn]) -> mx.array:
        """Of all rows of the call, in the order that they are computed."""
        positions = [turn.slot.length + n for turn in turns for n in range(len(turn.unread))]
        for step in range(1, turns[0].most):
            positions += [turn.slot.length + len(turn.unread) + step - 1 for turn in turns if turn.most > step]
        return self._form.angles(mx.array(positions))

    def _drawn(self, logits: mx.array, turns: Sequence[Turn], positions: Sequence[int]) -> mx.array:
        """Tokens ``[R]`` drawn from ``logits [R, ids]`` for the first R streams, greedy or with the target's noise."""
        count = logits.shape[0]
        if not any(turn.temperature for turn in turns[:count]):
            return mx.argmax(logits, axis=-1)
        tokens = []
        for row, (turn, position) in enumerate(zip(turns[:count], positions, strict=False)):
            values = logits[row]
            if turn.temperature:
                noise = self._noise(turn.seed, position)[: self.ids]
                values = values.astype(mx.float32) * (1 / turn.temperature) + noise
            tokens.append(mx.argmax(values))
        return mx.stack(tokens)


def _lasts(turns: Sequence[Turn]) -> list[int]:
    """The row of each stream's pending token."""
    lasts, last = [], -1
    for turn in turns:
        last += len(turn.unread)
        lasts.append(last)
    return lasts

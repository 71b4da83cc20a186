"""Drafts of several streams, chained on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
        least: the draft may end with the first token down to which all stand by a chance below this.
    """

    slot: Slot
    unread: list[int]
    most: int
    seed: int
    temperature: float
    alternatives: int = 0
    least: float = 0.0


@dataclass(slots=True)
class _Stream:
    """One stream's chain in a call; ``chance`` is that of all its tokens that were read back."""

    at: int
    turn: Turn
    part: Part
    tokens: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    chance: float = 1.0

    def take(self, token: int, share: float) -> None:
        self.tokens.append(token)
        self.shares.append(share)
        self.chance *= share

    def goes_on(self, step: int) -> bool:
        return step < self.turn.most and self.chance >= self.turn.least


_Sent = tuple[Sequence[_Stream], mx.array, mx.array]
"""A step under way: whose it is, their tokens, and the tokens' probabilities."""


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
        """Each stream's draft with its probabilities, for streams in the order of ``most``, the largest first.

        A step takes its tokens from the one before. Where no turn has a ``least``, every step is sent off as it is made
        and they come back together, once. Where one has, a step is read before more than the form's ``ahead`` further
        ones are sent off, and a stream that then falls below its ``least`` has no more of them.
        There are no alternatives: only the best of a step leaves the device.
        """
        streams = [_Stream(at, turn, self._part(turn.slot, len(turn.unread))) for at, turn in enumerate(turns)]
        most, going, sent = turns[0].most, streams, list[_Sent]()
        ahead = self._form.ahead if any(turn.least for turn in turns) else most
        angles, unread = self._angles(turns), [token for turn in turns for token in turn.unread]
        rows = self._forward.rows(mx.array(unread), angles[: len(unread)], [one.part for one in streams])
        rows = _picked(rows, _lasts(turns))
        for step in range(most):
            logits = self._forward.logits(rows)
            tokens = self._drawn(logits, [one.turn for one in going], step)
            shares = self._form.shares(logits, tokens)
            mx.async_eval(tokens, shares)  # type: ignore[no-untyped-call]
            sent.append((going, tokens, shares))
            if len(sent) > ahead:
                _read([sent.pop(0)])
            on = [row for row, one in enumerate(going) if one.goes_on(step + 1)]
            if not on:
                break
            going, at = [going[row] for row in on], len(unread) + step * len(turns)
            for one in going:
                one.part.rows = 1
            turned = _picked(angles[at : at + len(turns)], [one.at for one in going])
            rows = self._forward.rows(_picked(tokens, on), turned, [one.part for one in going])
        _read(sent)
        for one in streams:
            one.turn.slot.wrote(one.part.tail, [*one.turn.unread, *one.tokens[:-1]], len(one.turn.unread))
        return [Draft(tuple(one.tokens), probabilities=tuple((share,) for share in one.shares)) for one in streams]

    def _laid(self, form: Form) -> Layout:
        weights = form.weights
        return Layout(len(weights.layers), 2 * weights.kv_heads, weights.head_size, form.tail, weights.dtype)

    def _part(self, slot: Slot, rows: int) -> Part:
        """A slot as a forward reads it; while that lives, the slot must not be flushed."""
        return Part.of(slot.cache, len(slot.tokens), slot.tail, len(slot.recent), rows)

    def _angles(self, turns: Sequence[Turn]) -> mx.array:
        """Of the tokens to read first, then of every stream's row in each further step."""
        positions = [turn.slot.length + n for turn in turns for n in range(len(turn.unread))]
        for step in range(turns[0].most - 1):
            positions += [turn.slot.length + len(turn.unread) + step for turn in turns]
        return self._form.angles(mx.array(positions))

    def _drawn(self, logits: mx.array, turns: Sequence[Turn], step: int) -> mx.array:
        """Tokens ``[R]`` drawn from ``logits [R, ids]``, each for its stream, greedy or with the target's noise."""
        if not any(turn.temperature for turn in turns):
            return mx.argmax(logits, axis=-1)
        tokens = []
        for values, turn in zip(logits, turns, strict=True):
            if turn.temperature:
                noise = self._noise(turn.seed, turn.slot.length + len(turn.unread) + step)[: self.ids]
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


def _picked(rows: mx.array, places: list[int]) -> mx.array:
    """The rows at some places, given in ascending order."""
    return rows if len(places) == rows.shape[0] else rows[mx.array(places)]


def _read(sent: Sequence[_Sent]) -> None:
    """Read steps back, all at once."""
    if not sent:
        return
    tokens: Any = mx.concatenate([tokens for _, tokens, _ in sent]).tolist()
    shares: Any = mx.concatenate([shares for _, _, shares in sent]).tolist()
    streams = [one for going, _, _ in sent for one in going]
    for one, token, share in zip(streams, tokens, shares, strict=True):
        one.take(token, share)

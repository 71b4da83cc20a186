"""Chains of one launch each: the host asks once, and reads the drafts back once."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.drafter.chain import Chain, Turn
from tf_llama.drafter.cuda import plan
from tf_llama.drafter.cuda.form import CudaForm
from tf_llama.drafter.cuda.kernel import DraftKernel, Given
from tf_llama.drafter.cuda.schedule import passes
from tf_llama.drafter.cuda.trial import what_is_off
from tf_llama.drafter.form import Form
from tf_llama.drafter.forward import Forward, Part
from tf_llama.drafter.slot import Layout, Slot
from tf_llama.rows.cuda.form import even
from tf_llama.rows.cuda.processor import Processor
from tf_plugins.types import Draft

__all__ = ["CudaChain", "chain", "possible"]

_LOG = logging.getLogger(__name__)

_CHUNK = 1_024
"""Most rows of a prompt that are read at once. 256 of them take a 12M drafter as long to ask for as to compute."""

_STEP = 64
"""Rows of a chunk come in multiples of so many, the last of them unused. A length that was not read before takes MLX
another 1 to 10 ms (measured on an H200: 2.4 to 6.7 ms for 101 to 190 tokens, padded 1.4 to 1.7)."""

_SCORES = 1 << 25
"""Most attention scores of a chunk, 64 MiB of them, where that leaves 256 rows."""


class CudaChain(Chain):
    """Prompts are read through MLX, chains run in the kernel.

    A slot has one array for all layers. A chain writes a tail of its own, and what stands of it goes into the cache
    before the next.

    Args:
        form: the drafter's weights, stacked.
        forward: through MLX's operations.
        noise: as ``Chain``'s.
        kernel: runs the chains.
    """

    def __init__(self, form: CudaForm, forward: Forward, noise: Callable[[int, int], Any], kernel: DraftKernel) -> None:
        super().__init__(form, forward, noise)
        self._kernel = kernel
        self._given_up = False

    def release(self) -> None:
        del self._kernel
        super().release()

    def read(self, slot: Slot, tokens: Sequence[int]) -> None:
        self._expect_running()
        unread, heads = list(tokens), self._form.weights.heads
        while unread:
            rows = min(_CHUNK, max(self._form.tail, _SCORES // (heads * (slot.length + _CHUNK))))
            chunk, unread = unread[:rows], unread[rows:]
            padded = chunk + [0] * (-len(chunk) % _STEP)
            part = self._part(slot, len(padded))
            angles = self._form.angles(mx.arange(slot.length, slot.length + len(padded)))
            self._forward.rows(mx.array(padded), angles, [part])
            written = mx.concatenate(part.tail)
            mx.eval(written)
            del part  # its views of the cache would make the writing a copy
            slot.put([written], chunk)
            mx.eval(slot.cache)

    def draft(self, turns: Sequence[Turn]) -> list[Draft]:
        """As ``Chain``'s, with alternatives: up to ``BEST - 1`` of each step, chosen by what chose its draft."""
        self._expect_running()
        drafts: list[Draft] = []
        for start in range(0, len(turns), plan.STREAMS):
            # One after another: two launches at once would wait for each other's blocks.
            drafts += self._launched(turns[start : start + plan.STREAMS])
        return drafts

    def _expect_running(self) -> None:
        if self._given_up:
            raise RuntimeError("the drafter's kernel was given up")

    def _launched(self, turns: Sequence[Turn]) -> list[Draft]:
        for turn in turns:
            turn.slot.put(turn.slot.tail, turn.slot.recent)
            turn.slot.clear_tail()
        found = passes(turns, self._kernel.rows)
        tokens, written = self._kernel(found, [self._given(turn) for turn in turns])
        drawn: Any = tokens.tolist()
        if drawn[-1]:
            self._given_up = True
            raise RuntimeError("the drafter's kernel was given up: its blocks were not all on the device for a second")
        steps, drafts = turns[0].most, []
        known = _steps(drawn)
        for at, turn in enumerate(turns):
            draft = _drafted(known[at * steps : at * steps + turn.most], turn.alternatives, turn.least)
            turn.slot.wrote([written[at]], [*turn.unread, *draft.tokens[:-1]], len(turn.unread))
            drafts.append(draft)
        return drafts

    def _given(self, turn: Turn) -> Given:
        noise = None
        if turn.temperature:
            end = turn.slot.length + len(turn.unread)
            noise = mx.stack([self._noise(turn.seed, end + step)[: self.ids] for step in range(turn.most)])
        return Given(turn.slot.cache[0], len(turn.slot.tokens), turn.temperature, noise, turn.least)

    def _laid(self, form: Form) -> Layout:
        weights = form.weights
        lanes = len(weights.layers) * 2 * weights.kv_heads
        return Layout(1, lanes, weights.head_size, plan.TAIL, weights.dtype)

    def _part(self, slot: Slot, rows: int) -> Part:
        """A layer at a time, as a forward reads it, with a fresh tail."""
        weights = self._form.weights
        caches = list(mx.split(slot.cache[0], len(weights.layers)))
        tail = mx.zeros((2 * weights.kv_heads, rows, weights.head_size), weights.dtype)
        return Part.of(caches, len(slot.tokens), [tail] * len(caches), 0, rows)


_Step = list[tuple[int, float]]
"""A step's best ids, each with its probability."""


def _steps(drawn: list[int]) -> list[_Step]:
    """What a launch found, by streams and steps."""
    half = len(drawn) // 2
    shares = struct.unpack(f"={half}f", struct.pack(f"={half}i", *drawn[half:-1]))
    found = list(zip(drawn[:half], shares, strict=True))
    return [found[at : at + plan.BEST] for at in range(0, half, plan.BEST)]


def _drafted(steps: Sequence[_Step], alternatives: int, least: float) -> Draft:
    """What is left of the steps: none after the first draft down to which all stand by a chance below ``least``.

    A step's ids differ, as each is one thread's of the kernel; -1 stands for none.
    """
    kept, stands = list[_Step](), 1.0
    for step in steps:
        if step[0][0] < 0 or stands < least:
            break
        kept.append([step[0], *((id, share) for id, share in step[1 : 1 + alternatives] if id >= 0)])
        stands *= step[0][1]
    ids = [tuple(id for id, _ in step) for step in kept]
    shares = tuple(tuple(share for _, share in step) for step in kept)
    return Draft(tuple(id for id, *_ in ids), tuple(place[1:] for place in ids) if alternatives else (), shares)


def possible(config: LlamaConfig, dtype: mx.Dtype, device: Processor) -> bool:
    """Whether the kernel drafts with a model of this shape on this device."""
    return even(config, dtype, device) and plan.rows(config, device.shared) is not None


def chain(form: CudaForm, config: LlamaConfig, device: Processor, noise: Callable[[int, int], Any]) -> Chain:
    """Through the kernel where it drafts what MLX drafts, else through MLX."""
    forward = Forward(form, _CHUNK)
    try:
        kernel = DraftKernel(device, config, form.stacks, form.frequencies())
        made = CudaChain(form, forward, noise, kernel)
        off = what_is_off(made, form, forward)
    except Exception as error:
        off = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if off:
        _LOG.warning("the drafter runs without the CUDA kernel of tf-plugins: %s", off)
        return Chain(form, forward, noise)
    return made

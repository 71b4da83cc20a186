"""Faults that hardware and kernels are known for, planted in a loaded model through its form.

Each makes a row's bits depend on something that exact rows may not depend on.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_llama.model import LlamaModel
from tf_llama.rows.form import Form, Taps
from tf_llama.rows.forward import Rows
from tf_llama.rows.weights import Linear

FAULTS = ("width", "slot", "neighbours", "queries", "layout", "stale", "history")

_SMALL = 1e-3


class FaultyForm:
    """A form with one fault.

    Args:
        form: the form that computes.
        fault: what the bits depend on:
            ``width``: rows of the call; ``slot``: the row's place in it; ``neighbours``: the other rows;
            ``queries``: rows of the attention call; ``layout``: the cache's capacity; ``stale``: rows behind the
            mask; ``history``: whether attention calls of this size came before.
    """

    def __init__(self, form: Form, fault: str) -> None:
        self._form = form
        self._fault = fault
        self._calls: dict[int, int] = {}
        self.pads_writes, self.sends_every, self.chains = form.pads_writes, form.sends_every, form.chains

    def norm(self, rows: mx.array, weight: mx.array) -> mx.array:
        normed = self._form.norm(rows, weight)
        count = rows.shape[0]
        if self._fault == "width":
            return normed * (1 + _SMALL * count)
        if self._fault == "slot":
            return (normed * (1 + _SMALL * mx.arange(count)[:, None])).astype(normed.dtype)
        if self._fault == "neighbours":
            return normed + _SMALL * mx.mean(normed, axis=0, keepdims=True)
        return normed

    def angles(self, positions: Sequence[int]) -> mx.array:
        return self._form.angles(positions)

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        return self._form.rotate(rows, angles)

    def linear(self, rows: mx.array, weights: Linear) -> mx.array:
        return self._form.linear(rows, weights)

    def partial(self, rows: mx.array, weights: Linear) -> mx.array:
        return self._form.partial(rows, weights)

    def add_and_norm(self, rows: mx.array, part: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
        summed, _ = self._form.add_and_norm(rows, part, weight)
        return summed, self.norm(summed, weight)

    def gated(self, rows: mx.array, weights: Linear) -> tuple[mx.array, Taps]:
        return self._form.gated(rows, weights)

    def mask(self, positions: Sequence[int], keys: int, tile: int, leaves: Sequence[int] = ()) -> mx.array:
        return self._form.mask(positions, keys, tile, leaves)

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        attended = self._form.attend(queries, cache, keys, mask)
        count = queries.shape[0]
        if self._fault == "queries":
            return attended * (1 + _SMALL * count)
        if self._fault == "layout":
            return attended * (1 + 1e-4 * cache.shape[1])
        if self._fault == "stale":
            return (attended * (1 + 1e-4 * mx.sum(mx.abs(cache[:, :keys])))).astype(attended.dtype)
        if self._fault == "history":
            self._calls[count] = self._calls.get(count, 0) + 1
            return attended * (1 + _SMALL * self._calls[count])
        return attended


def plant(model: LlamaModel, fault: str) -> LlamaModel:
    """The same weights in a model with a fault."""
    rows = Rows(model.rows.weights, FaultyForm(model.rows.form, fault), compiled=False)
    faulty = LlamaModel(model.checkpoint, model.device, rows, model.layout)
    faulty.use(model.plan)
    return faulty

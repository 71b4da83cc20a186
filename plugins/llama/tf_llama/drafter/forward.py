"""A drafter's forward over a few rows of several streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from tf_llama.drafter.form import Form

__all__ = ["Forward", "Part"]


@dataclass(slots=True)
class Part:
    """One stream's share of a forward.

    Attributes:
        keys: an array a layer, ``[kv heads, head size, length]``, what the cache holds; empty for an empty cache.
        values: the same, ``[kv heads, length, head size]``.
        tail: an array a layer, ``[2 kv heads, tail, head size]``; a forward puts new ones in.
        at: rows that the tail holds; a forward adds its own.
        rows: this stream's rows in the next forward.
        start: ``at`` as an array ``[1]``, which all layers share.
    """

    keys: list[mx.array]
    values: list[mx.array]
    tail: list[mx.array]
    at: int
    rows: int
    start: mx.array

    @classmethod
    def of(cls, caches: Sequence[mx.array], length: int, tail: Sequence[mx.array], at: int, rows: int) -> Part:
        """Of ``length`` positions in ``caches``, an array a layer, ``[2 kv heads, capacity, head size]``.

        While it lives, the caches must not be written in place.
        """
        half = caches[0].shape[0] // 2
        held = caches if length else []
        keys = [cache[:half, :length].swapaxes(-1, -2) for cache in held]
        values = [cache[half:, :length] for cache in held]
        return cls(keys, values, list(tail), at, rows, mx.array([at]))


class Forward:
    """Rows of several streams share every product; attention runs a stream at a time.

    Args:
        form: the device's operations and weights.
        most: rows that one stream has at once, tail included; the form's tail where it is not given.
    """

    def __init__(self, form: Form, most: int | None = None) -> None:
        self._form = form
        self._weights = form.weights
        self._heads, self._kv_heads = form.weights.heads, form.weights.kv_heads
        order = mx.arange(most or form.tail)
        self._causal = mx.where(order[:, None] >= order, 0.0, -mx.inf).astype(form.weights.dtype)
        mx.eval(self._causal)

    def rows(self, ids: mx.array, angles: mx.array, parts: Sequence[Part]) -> mx.array:
        """Hidden rows ``[R, D]`` of the tokens ``ids [R]``, part by part; writes the parts' tails."""
        form = self._form
        rows = self._weights.table[ids]
        for at, layer in enumerate(self._weights.layers):
            queries, written = form.rotate(layer.attend(form.norm(rows, layer.attend_norm)), angles)
            rows = rows + layer.output(self._attend(at, queries, written, parts))
            rows = rows + layer.down(form.gate(layer.gate_up(form.norm(rows, layer.mlp_norm))))
        for part in parts:
            part.at += part.rows
            part.start = mx.array([part.at])
        return rows

    def logits(self, rows: mx.array) -> mx.array:
        """``[R, ids]`` of hidden rows."""
        return self._form.norm(rows, self._weights.norm) @ self._weights.head

    def _attend(self, layer: int, queries: mx.array, written: mx.array, parts: Sequence[Part]) -> mx.array:
        if len(parts) == 1:
            return self._one(layer, queries, written, parts[0])
        outputs, start = [], 0
        for part in parts:
            end = start + part.rows
            outputs.append(self._one(layer, queries[start:end], written[start:end], part))
            start = end
        return mx.concatenate(outputs)

    def _one(self, layer: int, queries: mx.array, written: mx.array, part: Part) -> mx.array:
        """Attention of ``queries [T, heads, size]`` over a stream's cache and tail, ``[T, heads * size]``."""
        rows, heads, size = queries.shape
        half, end = self._kv_heads, part.at + rows
        tail = part.tail[layer] = mx.slice_update(part.tail[layer], written.swapaxes(0, 1), part.start, (1,))
        if rows > 1:
            queries = queries.reshape(rows, half, -1, size).transpose(1, 2, 0, 3)
        queries = queries.reshape(half, -1, size)
        scores = queries @ tail[:half, :end].swapaxes(-1, -2)
        if rows > 1:
            masked = scores.reshape(half, -1, rows, end) + self._causal[part.at : end, :end]
            scores = masked.reshape(half, -1, end)
        if part.keys:
            scores = mx.concatenate([queries @ part.keys[layer], scores], axis=-1)
        weights = self._form.softmax(scores)
        cached = scores.shape[-1] - end
        output = weights[..., cached:] @ tail[half:, :end]
        if part.keys:
            output = output + weights[..., :cached] @ part.values[layer]
        if rows > 1:
            output = output.reshape(half, -1, rows, size).transpose(2, 0, 1, 3)
        return output.reshape(rows, heads * size)

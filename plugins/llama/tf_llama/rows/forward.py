"""The forward over rows of several streams: linear layers shared, attention a stream at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import mlx.core as mx

from tf_llama.rows.form import Form, Taps
from tf_llama.rows.span import Span
from tf_llama.rows.weights import Layer, Weights

__all__ = ["Rows", "Watch", "Whole"]

_LOG = logging.getLogger(__name__)

Watch = Callable[[mx.array, mx.array, mx.array, mx.array], None]
"""Told of every layer ``rows, queries, written, attended``."""


class Whole(Protocol):
    """A decode forward as one operation, with the bits of the form's own operations."""

    most: int
    """Rows that it takes at most."""

    @property
    def lost(self) -> bool:
        """Whether it failed, so that its last logits are no numbers; waits for the last forward."""

    def __call__(self, tokens: mx.array | Sequence[int], spans: Sequence[Span]) -> mx.array:
        """What ``Rows.decode`` returns for so many tokens as the spans have rows."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A span with what its attention needs in every layer.

    Attributes:
        span: the rows.
        begin: the forward's row that is its first.
        end: past the forward's last row that it uses. The padding at a forward's end repeats the last span's last
            row, so it fills up that span's tile.
        start: the cache's position that is written first.
        mask: of its attention.
        pad: copies of its last row that its tile still lacks.
    """

    span: Span
    begin: int
    end: int
    start: int
    mask: mx.array
    pad: int


class Rows:
    """A model as a function of rows.

    Everything in it but attention computes each row by itself; the three functions between attentions are what a
    server runs, or what has the bits of what it runs, and what its probe measures.

    Args:
        weights: the packed weights.
        form: the device's form of each operation.
        compiled: whether the functions between attentions go through ``mx.compile``. Layers share one compiled
            function a width, because their weights are arguments.

    Attributes:
        whole: what decodes in place of those functions where it can.
    """

    def __init__(self, weights: Weights, form: Form, compiled: bool) -> None:
        self.weights = weights
        self.form = form
        self.whole: Whole | None = None

        self.first = mx.compile(self._first) if compiled else self._first
        self.between = mx.compile(self._between) if compiled else self._between
        self.last: Callable[..., mx.array] = mx.compile(self._last) if compiled else self._last

    def decode(
        self, tokens: mx.array | Sequence[int], spans: Sequence[Span], tile: int, watch: Watch | None = None
    ) -> mx.array:
        """Logits ``[W, vocab]`` of the rows of all spans, and of padding rows; lazy. Writes the caches.

        Args:
            tokens: ``W`` ids, at least as many as the spans have rows. What is past them is padding and computes
                what the last row does. As an array ``[W]`` they may be lazy, so that steps can be chained without
                reading them back.
            spans: the streams' rows, in the order of ``tokens``.
            tile: attention queries a call.
            watch: told what every layer computes.

        Raises:
            CacheOverflow: a write would pass a cache's end; nothing was written.
        """
        width, whole = len(tokens), self.whole if watch is None else None
        if whole is not None and max(width, tile) <= whole.most and width == sum(span.rows for span in spans):
            for span in spans:
                span.cache.fits(span.cache.length, span.rows)
            try:
                return whole(tokens, spans)
            except Exception:
                _LOG.error("a forward could not be sent as one operation: forwards go operation by operation now")
                self.whole = None
                raise
        tokens = tokens if isinstance(tokens, mx.array) else mx.array(list(tokens))
        parts, angles = self._plan(width, spans, tile, self.form.pads_writes)
        layers = self.weights.layers
        rows, queries, written, _ = self.first(tokens, angles, self.weights.table, layers[0])
        for at, layer in enumerate(layers):
            attended = self._attend(at, queries, written, parts, width)
            if watch is not None:
                watch(rows, queries, written, attended)
            if layer is layers[-1]:
                break
            if self.form.sends_every and at % self.form.sends_every == 0:
                mx.async_eval(attended)  # type: ignore[no-untyped-call]
            rows, queries, written, _ = self.between(rows, attended, angles, layer, layers[at + 1])
        return self.last(rows, attended, layers[-1], self.weights.norm, self.weights.head)

    def read(self, tokens: mx.array, span: Span) -> None:
        """Write one span's keys and values and compute nothing that only logits need; lazy.

        Args:
            tokens: ``[W]`` ids, padded as in ``decode``.
            span: its rows; all of them attend in one call of ``W`` queries.
        """
        width, layers = tokens.shape[0], self.weights.layers
        parts, angles = self._plan(width, [span], width, False)
        rows, queries, written, _ = self.first(tokens, angles, self.weights.table, layers[0])
        for at, (layer, following) in enumerate(pairwise(layers)):
            attended = self._attend(at, queries, written, parts, width)
            rows, queries, written, _ = self.between(rows, attended, angles, layer, following)
        self._write(len(layers) - 1, written, parts)

    def recover(self) -> None:
        """Go on without the whole forward where it failed; waits for the last one, so it is asked between rounds."""
        if self.whole is not None and self.whole.lost:
            _LOG.error("blocks of a forward waited a second for one another: forwards go operation by operation now")
            self.whole = None

    def attend_once(self, tokens: mx.array, spans: Sequence[Span], tile: int) -> mx.array:
        """What ``decode`` computes up to its first attention, ``[W, H S]``; lazy. Writes the first layer alone."""
        parts, angles = self._plan(tokens.shape[0], spans, tile, self.form.pads_writes)
        _, queries, written, _ = self.first(tokens, angles, self.weights.table, self.weights.layers[0])
        return self._attend(0, queries, written, parts, tokens.shape[0])

    def _plan(self, width: int, spans: Sequence[Span], tile: int, pads_writes: bool) -> tuple[list[_Part], mx.array]:
        """What every layer's attention needs, and the rows' angles."""
        parts = self._parts(width, spans, tile, pads_writes)
        positions = [position for span in spans for position in span.positions]
        positions += positions[-1:] * (width - len(positions))
        return parts, self.form.angles(positions)

    def _parts(self, width: int, spans: Sequence[Span], tile: int, pads_writes: bool) -> list[_Part]:
        parts, begin = [], 0
        for span in spans:
            end, pad = begin + span.rows, -span.rows % tile if pads_writes else 0
            span.cache.fits(span.cache.length, span.rows + pad)
            mask = self.form.mask(span.positions, span.keys, tile, span.places)
            there = min(pad, width - end) if span is spans[-1] else 0
            parts.append(_Part(span, begin, end + there, span.cache.length, mask, pad - there))
            begin = end
        return parts

    def _write(self, layer: int, written: mx.array, parts: Sequence[_Part]) -> list[mx.array]:
        caches = []
        for part in parts:
            rows = written[part.begin : part.end]
            if part.pad:
                rows = mx.concatenate([rows, mx.broadcast_to(rows[-1:], (part.pad, *rows.shape[1:]))])
            caches.append(part.span.cache.write(layer, rows, part.start))
        return caches

    def _attend(self, layer: int, queries: mx.array, written: mx.array, parts: Sequence[_Part], width: int) -> mx.array:
        caches = self._write(layer, written, parts)
        outputs = [
            self.form.attend(queries[part.begin : part.end], cache, part.span.keys, part.mask)
            for cache, part in zip(caches, parts, strict=True)
        ]
        padding = width - parts[-1].end
        if padding:
            outputs.append(mx.broadcast_to(outputs[-1][-1:], (padding, outputs[-1].shape[1])))
        return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs)

    # The three functions between attentions. Each returns what the next attention needs, and its taps.

    def _first(
        self, tokens: mx.array, angles: mx.array, table: mx.array, layer: Layer
    ) -> tuple[mx.array, mx.array, mx.array, Taps]:
        rows = table[tokens]
        return rows, *self._asked(self.form.norm(rows, layer["attend_norm"]), angles, layer), ()

    def _between(
        self, rows: mx.array, attended: mx.array, angles: mx.array, layer: Layer, following: Layer
    ) -> tuple[mx.array, mx.array, mx.array, Taps]:
        rows, normed, taps = self._block(rows, attended, layer, following["attend_norm"])
        return rows, *self._asked(normed, angles, following), taps

    def _last(self, rows: mx.array, attended: mx.array, layer: Layer, norm: mx.array, head: mx.array) -> mx.array:
        _, normed, _ = self._block(rows, attended, layer, norm)
        return self.form.linear(normed, (head,))

    def _asked(self, normed: mx.array, angles: mx.array, layer: Layer) -> tuple[mx.array, mx.array]:
        return self.form.rotate(self.form.linear(normed, layer["attend"]), angles)

    def _block(
        self, rows: mx.array, attended: mx.array, layer: Layer, norm: mx.array
    ) -> tuple[mx.array, mx.array, Taps]:
        """A layer from its attention on: its rows, and their norm for what follows it."""
        form = self.form
        rows, normed = form.add_and_norm(rows, form.partial(attended, layer["output"]), layer["mlp_norm"])
        middle = rows
        inner, taps = form.gated(normed, layer["gate_up"])
        rows, normed = form.add_and_norm(rows, form.partial(inner, layer["down"]), norm)
        return rows, normed, (middle, *taps, inner)

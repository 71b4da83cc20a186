"""Trials before kernels are trusted: what MLX computes, within rounding; and whole forwards bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import mlx.core as mx

from tf_llama.rows.cache import Layout, LlamaCache
from tf_llama.rows.cuda.plan import ROWS
from tf_llama.rows.form import Form
from tf_llama.rows.forward import Rows, Whole
from tf_llama.rows.span import Span
from tf_llama.rows.weights import Weights, linear

__all__ = ["what_differs", "what_is_off"]

_TOLERANCE = 0.03
"""Of the difference's norm over the result's. Bfloat16 rounds to 0.004; a wrong sum is off by about one."""

_KEYS = 1_300
"""Enough for splits of two lengths, and an odd end."""

_SPANS = (((70, 1, ()),), ((300, 5, (0, 0)), (61, 3, ())), ((2_040, 12, (0, 1, 5)), (130, 4, (2,))))
"""Forwards of a trial, by streams: length of the cache, rows, and the rows before its leaves."""

_MORE = 24
"""Positions of a cache behind its length."""

Pair = tuple[str, mx.array, mx.array]


def what_is_off(ours: Form, theirs: Form, weights: Weights) -> str:
    """The first operation in which two forms differ by more than rounding, or how it failed; empty where none does."""
    name = "compiling"
    try:
        for name, found, wanted in _operations(ours, theirs, weights):
            wide = wanted.astype(mx.float32)
            off, size = _length(found.astype(mx.float32) - wide), _length(wide)
            if not off <= _TOLERANCE * size:  # NaN is off too
                return f"{name} is off by {off:.2g} of {size:.2g}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""


def _length(array: mx.array) -> float:
    return cast(float, mx.linalg.norm(array).item())


def _operations(ours: Form, theirs: Form, weights: Weights) -> Iterator[Pair]:
    layer, places = weights.layers[-1], [_KEYS - 2 * ROWS + at for at in range(ROWS)]
    rows = weights.table[mx.arange(ROWS) * 7 + 3]
    normed, also = (form.norm(rows, layer["attend_norm"]) for form in (theirs, ours))
    asked = theirs.linear(normed, layer["attend"])
    yield "product", ours.linear(also, layer["attend"]), asked
    queries, written = theirs.rotate(asked, theirs.angles(places))
    turned, put = ours.rotate(asked, ours.angles(places))
    yield "rotation of queries", turned, queries
    yield "rotation of keys", put, written
    key = mx.random.key(5)
    cache = mx.random.normal((written.shape[1], _KEYS, written.shape[2]), key=key).astype(rows.dtype)
    attended = theirs.attend(queries, cache, _KEYS, theirs.mask(places, _KEYS, ROWS))
    yield "attention", ours.attend(queries, cache, _KEYS, ours.mask(places, _KEYS, ROWS)), attended
    some = ours.attend(queries[:3], cache, _KEYS, ours.mask(places[:3], _KEYS, ROWS))
    yield "attention of few rows", some, attended[:3]
    fresh, normed = theirs.add_and_norm(rows, theirs.partial(attended, layer["output"]), layer["mlp_norm"])
    summed, also = ours.add_and_norm(rows, ours.partial(attended, layer["output"]), layer["mlp_norm"])
    yield "sum", summed, fresh
    inner, _ = theirs.gated(normed, layer["gate_up"])
    yield "gated product of the sum's norm", ours.gated(also, layer["gate_up"])[0], inner
    down, _ = ours.add_and_norm(mx.zeros_like(rows), ours.partial(inner, layer["down"]), weights.norm)
    yield "deep product", down, linear(inner, layer["down"])
    head = theirs.linear(theirs.norm(fresh, weights.norm), (weights.head,))
    yield "head", ours.linear(ours.norm(fresh, weights.norm), (weights.head,)), head
    yield "head of one row", ours.linear(ours.norm(fresh[:1], weights.norm), (weights.head,)), head[:1]


def what_differs(rows: Rows, whole: Whole, layout: Layout) -> str:
    """The first forward in which a whole one has other bits than ``rows`` operation by operation; or nothing."""
    for lengths in _SPANS:
        ours, theirs = ([_filled(layout, length) for length, _, _ in lengths] for _ in range(2))
        spans, same = (
            [
                Span(cache, count, cache.capacity, leaves)
                for cache, (_, count, leaves) in zip(caches, lengths, strict=True)
            ]
            for caches in (ours, theirs)
        )
        count = sum(span.rows for span in spans)
        tokens = [at * 5 + 2 for at in range(count)]
        # As served: mostly ids, and an array where a forward is queued behind the one that draws them.
        found = whole(mx.array(tokens) if count == 1 else tokens, spans)
        wanted = rows.decode(tokens, same, ROWS)
        mx.eval(found, wanted)
        what = f"{count} rows of {len(spans)} streams"
        if not _equal(found, wanted):
            return f"logits of {what} differ"
        layers = [[layer for cache in caches for layer in cache.layers] for caches in (ours, theirs)]
        if not all(map(_equal, *layers)):
            return f"what {what} wrote differs"
    return ""


def _filled(layout: Layout, length: int) -> LlamaCache:
    cache = LlamaCache(layout, length + _MORE)
    cache.layers = [
        mx.random.normal(layer.shape, key=mx.random.key(at)).astype(layer.dtype)
        for at, layer in enumerate(cache.layers)
    ]
    mx.eval(cache.layers)
    cache.length = length
    return cache


def _equal(some: mx.array, others: mx.array) -> bool:
    return bool(mx.array_equal(some.view(mx.uint16), others.view(mx.uint16)).item())

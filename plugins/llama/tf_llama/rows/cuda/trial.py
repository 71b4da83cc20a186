"""A trial before the kernels are trusted: they must compute what MLX computes, within rounding."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from tf_llama.rows.cuda.plan import ROWS
from tf_llama.rows.form import Form
from tf_llama.rows.weights import Weights, linear

__all__ = ["what_is_off"]

_TOLERANCE = 0.03
"""Of the difference's norm over the result's. Bfloat16 rounds to 0.004; a wrong sum is off by about one."""

_KEYS = 1_300
"""Enough for splits of two lengths, and an odd end."""

Pair = tuple[str, mx.array, mx.array]


def what_is_off(ours: Form, theirs: Form, weights: Weights) -> str:
    """The first operation in which two forms differ by more than rounding, or how it failed; empty where none does."""
    name = "compiling"
    try:
        for name, found, wanted in _operations(ours, theirs, weights):
            wide = wanted.astype(mx.float32)
            off, size = mx.linalg.norm(found.astype(mx.float32) - wide).item(), mx.linalg.norm(wide).item()
            if not off <= _TOLERANCE * size:  # NaN is off too
                return f"{name} is off by {off:.2g} of {size:.2g}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""


def _operations(ours: Form, theirs: Form, weights: Weights) -> Iterator[Pair]:
    layer, places = weights.layers[-1], [_KEYS - 2 * ROWS + at for at in range(ROWS)]
    rows = weights.table[mx.arange(ROWS) * 7 + 3]
    normed = theirs.norm(rows, layer["attend_norm"])
    asked = theirs.linear(normed, layer["attend"])
    yield "product", ours.linear(normed, layer["attend"]), asked
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
    yield "norm of the sum", also, normed
    inner, _ = theirs.gated(normed, layer["gate_up"])
    yield "gated product", ours.gated(normed, layer["gate_up"])[0], inner
    down, _ = ours.add_and_norm(mx.zeros_like(rows), ours.partial(inner, layer["down"]), weights.norm)
    yield "deep product", down, linear(inner, layer["down"])
    head = normed @ weights.head
    yield "head", ours.linear(normed, (weights.head,)), head
    yield "head of one row", ours.linear(normed[:1], (weights.head,)), head[:1]

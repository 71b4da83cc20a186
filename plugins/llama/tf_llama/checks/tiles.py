"""Attention: the same rows in every slot, with other neighbours, stale rows behind, and in every layout."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import mlx.core as mx

from tf_llama.checks.activations import Seen
from tf_llama.checks.bits import digest
from tf_plugins.rows import bucket_edges
from tf_plugins.types import TileCheck

if TYPE_CHECKING:
    from tf_llama.model import LlamaModel

__all__ = ["attention_check"]

_ASKED = 16
"""Rows asked in every bucket: as many as a window has at most."""

_WINDOWS = (2, 3, 5, 8, 16)


def attention_check(model: LlamaModel, seen: Seen) -> TileCheck:
    """Attention of the middle layer's queries over its keys and values, repeated to fill the longest bucket."""
    layout, form = model.layout, model.rows.form
    slack = model.plan.chunk_rows[0]
    queries = seen.queries[:_ASKED]

    def filled(capacity: int, stale_from: int | None = None) -> mx.array:
        times = -(-capacity // seen.written.shape[0])
        rows = mx.tile(seen.written, (times, 1, 1))[:capacity].swapaxes(0, 1)
        if stale_from is not None:
            stale = mx.arange(capacity)[None, :, None] >= stale_from
            rows = mx.where(stale, rows * -3 + 1, rows)
        rows = mx.contiguous(rows).astype(layout.dtype)
        mx.eval(rows)
        return rows

    def attend(
        cache: mx.array, order: Sequence[int], window: int, places: Sequence[int], keys: int, tile: int
    ) -> bytes:
        outputs: dict[int, mx.array] = {}
        for begin in range(0, _ASKED, window):
            numbers = list(order[begin : begin + window])
            mask = form.mask([places[n] for n in numbers], keys, tile)
            attended = form.attend(queries[mx.array(numbers)], cache, keys, mask)
            outputs.update({n: attended[at] for at, n in enumerate(numbers)})
        mx.eval(outputs)
        return digest(outputs[n] for n in range(_ASKED))

    def variants(tile: int, rungs: Sequence[int]) -> Iterable[tuple[str, bytes]]:
        plain = list(range(_ASKED))
        mixed = plain.copy()
        random.Random(3).shuffle(mixed)
        edges = bucket_edges(min(rungs[-1], model.checkpoint.context))
        for rung in rungs:
            capacity = rung + max(tile, slack)
            cache = filled(capacity)
            for begin, keys in zip((0, *edges), edges, strict=False):
                if keys > rung:
                    break
                group, middle = f"{keys} keys", (begin + keys) // 2
                # Rows of the bucket's first half, so that stale rows lie within the key view.
                places = [begin + (middle - begin) * n // _ASKED for n in plain]
                yield f"{group}: rung {rung}, alone", attend(cache, plain, 1, places, keys, tile)
                yield f"{group}: rung {rung}, windows of 16", attend(cache, plain, 16, places, keys, tile)
                if rung != next(one for one in rungs if one >= keys):
                    continue
                for window in _WINDOWS:
                    yield f"{group}: windows of {window}", attend(cache, plain, window, places, keys, tile)
                    yield f"{group}: mixed windows of {window}", attend(cache, mixed, window, places, keys, tile)
                stale = filled(capacity, middle)
                yield f"{group}: stale rows behind, alone", attend(stale, plain, 1, places, keys, tile)
                yield f"{group}: stale rows behind, windows of 5", attend(stale, mixed, 5, places, keys, tile)

    heads, size = queries.shape[1:]
    return TileCheck(f"attention, {heads} heads over {layout.kv_heads}, size {size}", variants)

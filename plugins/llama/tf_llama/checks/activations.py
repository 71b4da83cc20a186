"""Real activations, from a text that the model itself finds likely."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx

from tf_llama.rows.cache import LlamaCache
from tf_llama.rows.forward import Watch
from tf_llama.rows.span import Span

if TYPE_CHECKING:
    from tf_llama.model import LlamaModel

__all__ = ["ROWS", "Seen", "gather", "outputs_wanted"]

ROWS = 64
"""Rows gathered from every layer; a multiple of 32, the widest forward that is probed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a forward over ``ROWS`` tokens computed.

    Attributes:
        rows: per layer, what its attention was given beside: ``[ROWS, D]``.
        attended: per layer, what its attention returned: ``[ROWS, H S]``.
        queries: of the middle layer, ``[ROWS, H, S]``.
        written: keys and values of the middle layer, ``[ROWS, 2 K, S]``.
    """

    rows: list[mx.array]
    attended: list[mx.array]
    queries: mx.array
    written: mx.array


def gather(model: LlamaModel) -> Seen:
    """Run the model over tokens that it finds likely itself: random ones first, then its own guess after each."""
    dealer = random.Random(0)
    tokens = mx.array([dealer.randrange(model.checkpoint.vocab) for _ in range(ROWS)])
    guesses = mx.argmax(_run(model, tokens, None), axis=-1)
    seen = Seen([], [], mx.zeros(0), mx.zeros(0))
    queries: list[tuple[mx.array, mx.array]] = []

    def watch(rows: mx.array, asked: mx.array, written: mx.array, attended: mx.array) -> None:
        seen.rows.append(rows)
        seen.attended.append(attended)
        queries.append((asked, written))

    mx.eval(_run(model, mx.concatenate([tokens[:1], guesses[:-1].astype(tokens.dtype)]), watch))
    asked, written = queries[len(queries) // 2]
    mx.eval(seen.rows, seen.attended, asked, written)
    return Seen(seen.rows, seen.attended, asked, written)


def outputs_wanted(model: LlamaModel) -> int:
    """Outputs to compare an operation and width: a million, or the number of weights of a toy."""
    return min(1_000_000, model.checkpoint.weight_bytes // 16)


def _run(model: LlamaModel, tokens: mx.array, watch: Watch | None) -> mx.array:
    span = Span(LlamaCache(model.layout, 2 * ROWS), ROWS, ROWS)
    return model.rows.decode(tokens, [span], ROWS, watch)

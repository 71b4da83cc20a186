"""Row operations: the same rows, so many a call."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import mlx.core as mx

from tf_llama.checks.activations import ROWS, Seen, outputs_wanted
from tf_llama.checks.bits import digest
from tf_plugins.types import WidthCheck

if TYPE_CHECKING:
    from tf_llama.model import LlamaModel

__all__ = ["between_check", "first_check", "last_check"]

Operation = Callable[[Sequence[int]], Sequence[mx.array]]
"""Computes the rows of these numbers in one call; each output has one row a number."""


def first_check(model: LlamaModel, seen: Seen) -> WidthCheck:
    """Embedding, norm, queries, keys and values, rotation."""
    rows, layer = model.rows, model.rows.weights.layers[0]
    outputs = layer["attend"][0].shape[1]
    count = _rounded(outputs_wanted(model) / outputs)
    dealer = random.Random(1)
    tokens = [dealer.randrange(model.checkpoint.vocab) for _ in range(count)]
    places = [dealer.randrange(model.plan.context) for _ in range(count)]

    def operation(numbers: Sequence[int]) -> Sequence[mx.array]:
        angles = rows.form.angles([places[n] for n in numbers])
        _, asked, written, _ = rows.first(mx.array([tokens[n] for n in numbers]), angles, rows.weights.table, layer)
        return asked, written

    name = f"embed, norm, qkv {_shape(layer['attend'][0])}, rope"
    groups = [(operation, ROWS)] * (count // ROWS)
    shifted = [(_shifted(operation, at * ROWS), size) for at, (operation, size) in enumerate(groups)]
    return WidthCheck(name, count * outputs, _digests(shifted))


def between_check(model: LlamaModel, seen: Seen) -> WidthCheck:
    """Output projection, MLP, and the next layer's norm, queries, keys and values; what is inside is compared too."""
    rows, layers = model.rows, model.rows.weights.layers
    this = layers[0]
    outputs = 2 * this["output"][0].shape[1] + this["gate_up"][0].shape[1] * 3 // 2 + this["attend"][0].shape[1]
    wanted = -(-outputs_wanted(model) // (outputs * ROWS))
    chosen = _spread(len(layers) - 1, wanted)
    dealer = random.Random(2)
    places = [dealer.randrange(model.plan.context) for _ in range(ROWS)]

    def at(layer: int) -> Operation:
        def operation(numbers: Sequence[int]) -> Sequence[mx.array]:
            index = mx.array(list(numbers))
            angles = rows.form.angles([places[n] for n in numbers])
            residual, asked, written, taps = rows.between(
                seen.rows[layer][index], seen.attended[layer][index], angles, layers[layer], layers[layer + 1]
            )
            return residual, asked, written, *taps

        return operation

    shapes = ", ".join(f"{part} {_shape(this[part][0])}" for part in ("output", "gate_up", "down", "attend"))
    groups = [(at(layer), ROWS) for layer in chosen]
    return WidthCheck(f"layer: {shapes}", len(chosen) * ROWS * outputs, _digests(groups))


def last_check(model: LlamaModel, seen: Seen) -> WidthCheck:
    """The last layer's output projection and MLP, norm and head."""
    rows, weights = model.rows, model.rows.weights
    outputs = weights.head.shape[1]
    wanted = -(-outputs_wanted(model) // outputs)
    # The inputs of other layers serve where the last one has too few rows.
    chosen = [len(weights.layers) - 1, *_spread(len(weights.layers) - 1, -(-wanted // ROWS) - 1)]
    counts = [min(ROWS, wanted - at * ROWS) for at in range(len(chosen))]

    def at(layer: int) -> Operation:
        def operation(numbers: Sequence[int]) -> Sequence[mx.array]:
            index = mx.array(list(numbers))
            residual, attended = seen.rows[layer][index], seen.attended[layer][index]
            return [rows.last(residual, attended, weights.layers[-1], weights.norm, weights.head)]

        return operation

    groups = [(at(layer), count) for layer, count in zip(chosen, counts, strict=True)]
    return WidthCheck(f"last layer, norm, head {_shape(weights.head)}", sum(counts) * outputs, _digests(groups))


def _digests(groups: Sequence[tuple[Operation, int]]) -> Callable[[int, bool], bytes]:
    """``WidthCheck.digest`` of groups of rows, each with its operation; a call's rows are of one group."""

    def of(width: int, shuffled: bool) -> bytes:
        found: list[mx.array] = []
        for operation, count in groups:
            order = list(range(count))
            if shuffled:
                random.Random(count).shuffle(order)
            calls = []
            for begin in range(0, count, width):
                numbers = order[begin : begin + width]
                # As served: a padding row computes what the last row does.
                calls.append(operation([*numbers, *[numbers[-1]] * (width - len(numbers))]))
            back = mx.array(sorted(range(count), key=lambda n: order[n]))
            outputs = [mx.concatenate(list(parts))[back] for parts in zip(*calls, strict=True)]
            mx.eval(outputs)
            found.append(mx.array(list(digest(outputs)), dtype=mx.uint8))
        return digest(found)

    return of


def _shifted(operation: Operation, by: int) -> Operation:
    return lambda numbers: operation([n + by for n in numbers])


def _spread(layers: int, wanted: int) -> list[int]:
    """``wanted`` of the layers, evenly; all where there are fewer."""
    count = max(0, min(layers, wanted))
    return [at * layers // count for at in range(count)]


def _rounded(rows: float) -> int:
    return max(1, -(-int(rows) // ROWS)) * ROWS


def _shape(weight: mx.array) -> str:
    return f"{weight.shape[0]}->{weight.shape[1]}"

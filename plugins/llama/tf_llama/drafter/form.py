"""The operations that a drafter's forward is made of, in the form that is fastest on a device.

A draft never changes a reply, so a form may round as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import mlx.core as mx

from tf_llama.drafter.weights import Layer, Weights

__all__ = ["Form", "shape", "taken"]


class Form(Protocol):
    """How one kind of device runs a drafter. ``R`` is rows, ``D`` the hidden size, ``F`` the MLP's.

    A form is made from mlx-lm's module and the ids that may be proposed, the first so many. It takes the weights out
    of the module, a layer at a time.
    """

    tail: int
    """Recent positions that a stream keeps beside its cache; also the rows of a prompt chunk."""

    ahead: int
    """Steps that are sent off before the one is read that may end a chain; their tokens are drafted too."""

    weights: Weights

    def norm(self, rows: mx.array, weight: mx.array | None) -> mx.array:
        """RMS norm of ``rows [R, D]``; without a weight what follows has it."""

    def angles(self, positions: mx.array) -> mx.array:
        """What ``rotate`` needs to know of ``positions [R]``, a row each."""

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        """Split ``[R, (heads + 2 kv) * size]`` into queries ``[R, heads, size]``, rotated and scaled, and keys,
        rotated, then values ``[R, 2 kv, size]``."""

    def softmax(self, scores: mx.array) -> mx.array:
        """Along the last axis."""

    def gate(self, rows: mx.array) -> mx.array:
        """``silu(gate) * up`` of ``[R, 2 F]``."""

    def shares(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """Float32 ``[R]``, at most 1: what the softmax of ``logits [R, ids]`` gives ``tokens [R]``, one a row."""


def shape(args: Any) -> tuple[int, int, int]:
    """Heads, key and value heads, head size."""
    size = args.head_dim or args.hidden_size // args.num_attention_heads
    return args.num_attention_heads, args.num_key_value_heads, size


def taken(blocks: list[Any], pack: Callable[[Any], Layer]) -> tuple[Layer, ...]:
    """Pack blocks and drop each module once it is packed: no more than one layer is there twice."""
    layers = []
    for at, block in enumerate(blocks):
        layers.append(pack(block))
        mx.eval(layers[-1].arrays())
        blocks[at] = block = None
    return tuple(layers)

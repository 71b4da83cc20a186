"""The operations that a rows forward is made of; each kind of device has its own form of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

__all__ = ["Form"]


class Form(Protocol):
    """How one kind of device computes.

    ``R`` is rows, ``D`` the hidden size, ``F`` the MLP's, ``H`` query heads, ``K`` key heads, ``S`` the head size.
    In everything but ``attend`` a row's result depends on that row alone. A server uses one form for all it decodes.
    """

    pads_writes: bool
    """Whether the padding rows of a tile are written too, so that a write has one shape."""

    sends_every: int
    """Layers after which a decode forward is sent off while the next ones are built; 0: sent whole."""

    def norm(self, rows: mx.array, weight: mx.array) -> mx.array:
        """RMS norm of ``rows [R, D]``."""

    def angles(self, positions: Sequence[int]) -> mx.array:
        """What ``rotate`` needs to know of the positions, one a row."""

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        """Split ``[R, (H + 2 K) S]`` into rotated queries ``[R, H, S]``, and ``[R, 2 K, S]``: rotated keys, values."""

    def gate(self, rows: mx.array) -> mx.array:
        """``silu(gate) * up`` of ``[R, 2 F]``."""

    def mask(self, positions: Sequence[int], keys: int, tile: int) -> mx.array:
        """The mask of one stream's rows over ``keys`` keys, padded to whole tiles; ``attend``'s shape."""

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        """Attention of one stream's ``queries [R, H, S]`` over the first ``keys`` rows of its layer, ``[R, H S]``."""

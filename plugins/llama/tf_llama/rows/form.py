"""The operations that a rows forward is made of; each kind of device has its own form of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import mlx.core as mx

from tf_llama.rows.weights import Linear, linear

__all__ = ["Form", "Normed", "Products", "Taps"]

Normed = Any
"""The norm of rows, in whatever state the form's own ``linear`` and ``gated`` take it: mostly an array ``[R, D]``."""

Taps = tuple[mx.array, ...]
"""Numbers inside a block that the probe compares too. They exist anyway; serving drops them."""


class Form(Protocol):
    """How one kind of device computes.

    ``R`` is rows, ``D`` the hidden size, ``F`` the MLP's, ``H`` query heads, ``K`` key heads, ``S`` the head size.
    In everything but ``attend`` a row's result depends on that row alone. A server uses one form for all it decodes.
    """

    pads_writes: bool
    """Whether the padding rows of a tile are written too, so that a write has one shape."""

    sends_every: int
    """Layers after which a decode forward is sent off while the next ones are built; 0: sent whole."""

    chains: bool
    """Whether a forward that is sent while the last one runs leaves the caches in place."""

    def takes_leaves(self, tile: int) -> bool:
        """Whether rows at positions of other rows attend exactly, at so many queries a call."""

    def norm(self, rows: mx.array, weight: mx.array) -> Normed:
        """RMS norm of ``rows [R, D]``."""

    def angles(self, positions: Sequence[int]) -> mx.array:
        """What ``rotate`` needs to know of the positions, one a row."""

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        """Split ``[R, (H + 2 K) S]`` into rotated queries ``[R, H, S]``, and ``[R, 2 K, S]``: rotated keys, values."""

    def linear(self, rows: Normed, weights: Linear) -> mx.array:
        """Normed ``rows [R, in]`` through a linear layer, ``[R, out]``."""

    def partial(self, rows: mx.array, weights: Linear) -> mx.array:
        """The same of rows as they are, in whatever state ``add_and_norm`` takes it."""

    def add_and_norm(self, rows: mx.array, part: mx.array, weight: mx.array) -> tuple[mx.array, Normed]:
        """``rows [R, D]`` plus what ``partial`` returned, and the RMS norm of the sum."""

    def gated(self, rows: Normed, weights: Linear) -> tuple[mx.array, Taps]:
        """``silu(gate) * up`` of normed ``rows [R, D]`` through gate over up, ``[R, F]``."""

    def mask(self, positions: Sequence[int], keys: int, tile: int, leaves: Sequence[int] = ()) -> mx.array:
        """What ``attend`` needs to know of one stream's rows over ``keys`` keys: their mask, in whole tiles.

        ``leaves`` has where the cache holds the keys of the last rows, where those are not at their positions.
        """

    def attend(self, queries: mx.array, cache: mx.array, keys: int, mask: mx.array) -> mx.array:
        """Attention of one stream's ``queries [R, H, S]`` over the first ``keys`` rows of its layer, ``[R, H S]``."""

    def move(self, layers: list[mx.array], source: int, target: int) -> None:
        """Put the row at ``source`` of every layer's cache at ``target``; sent off. Only where leaves are taken."""


class Products:
    """A form's products as MLX computes them; the form brings ``norm`` and ``gate``."""

    def norm(self, rows: mx.array, weight: mx.array) -> mx.array:
        """As in ``Form``."""
        raise NotImplementedError

    def gate(self, rows: mx.array) -> mx.array:
        """``silu(gate) * up`` of ``[R, 2 F]``."""
        raise NotImplementedError

    def takes_leaves(self, tile: int) -> bool:
        return False

    def move(self, layers: list[mx.array], source: int, target: int) -> None:
        raise NotImplementedError("leaves are not taken")

    def linear(self, rows: mx.array, weights: Linear) -> mx.array:
        return linear(rows, weights)

    def partial(self, rows: mx.array, weights: Linear) -> mx.array:
        return linear(rows, weights)

    def add_and_norm(self, rows: mx.array, part: mx.array, weight: mx.array) -> tuple[mx.array, mx.array]:
        rows = rows + part
        return rows, self.norm(rows, weight)

    def gated(self, rows: mx.array, weights: Linear) -> tuple[mx.array, Taps]:
        gate_up = linear(rows, weights)
        return self.gate(gate_up), (gate_up,)

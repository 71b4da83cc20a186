"""Numbers that every draw needs."""

from __future__ import annotations

from functools import lru_cache

import mlx.core as mx


@lru_cache(64)
def constant(value: float, dtype: mx.Dtype = mx.float32) -> mx.array:
    """A number ``[1]`` in a GPU's own memory. For one that is made anew it waits until that has come from the host."""
    # A view of more: MLX puts arrays of up to 8 bytes where device and host share them.
    made = mx.full((64,), value, dtype)[:1]
    mx.eval(made)
    return made

"""The noise of a draw: a function of the seed and the position, nothing else."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

import mlx.core as mx

_LEAST = -1e30
"""Stands in for minus infinity (a uniform draw of exactly 0), so that a lone survivor still beats what was filtered."""


def noise_key(seed: int, position: int) -> mx.array:
    """The MLX random key ``[2]`` uint32 for the token drawn at ``position``; ``seed`` counts modulo 2^64."""
    return mx.array(_words(seed, position), dtype=mx.uint32)


def gumbel(vocab: int, seed: int, positions: Iterable[int]) -> mx.array:
    """Gumbel noise ``[positions, vocab]`` float32, each row by its own key and the same beside others.

    One key draws other numbers at another shape, so ``vocab`` is fixed.
    """
    keys = mx.array([_words(seed, position) for position in positions], dtype=mx.uint32)

    def one(key: mx.array) -> mx.array:
        return mx.maximum(mx.random.gumbel([vocab], key=key), _LEAST)

    drawn: mx.array = mx.vmap(one)(keys)
    return drawn


def _words(seed: int, position: int) -> tuple[int, ...]:
    digest = hashlib.blake2b(struct.pack("<QQ", seed & (2**64 - 1), position), digest_size=8).digest()
    return struct.unpack("<2I", digest)

"""The noise of a draw: a function of the seed and the position, nothing else."""

from __future__ import annotations

import hashlib
import struct

import mlx.core as mx

_LEAST = -1e30
"""Stands in for minus infinity (a uniform draw of exactly 0), so that a lone survivor still beats what was filtered."""


def noise_key(seed: int, position: int) -> mx.array:
    """The MLX random key ``[2]`` uint32 for the token drawn at ``position``; ``seed`` counts modulo 2^64."""
    digest = hashlib.blake2b(struct.pack("<QQ", seed & (2**64 - 1), position), digest_size=8).digest()
    return mx.array(struct.unpack("<2I", digest), dtype=mx.uint32)


def gumbel(vocab: int, seed: int, position: int) -> mx.array:
    """Gumbel noise ``[vocab]`` float32; one key draws other numbers at another shape, so ``vocab`` is fixed."""
    return mx.maximum(mx.random.gumbel([vocab], key=noise_key(seed, position)), _LEAST)

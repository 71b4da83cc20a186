"""Noise is a function of seed, position and the head's size alone."""

from __future__ import annotations

import hashlib
import struct

import mlx.core as mx
import numpy as np
import pytest

from tf_host.sampling import Drawer, noise_key


def test_the_key_is_a_hash_of_seed_and_position() -> None:
    words = struct.unpack("<2I", hashlib.blake2b(struct.pack("<QQ", 42, 7), digest_size=8).digest())
    assert noise_key(42, 7).tolist() == list(words)
    assert noise_key(42, 7).dtype == mx.uint32
    # Another key would change every seeded reply.
    assert noise_key(42, 7).tolist() == [202028858, 3699699175]


def test_noise_is_drawn_with_the_key_of_its_position() -> None:
    for seed, position in ((1, 2), (1, 3), (2, 3)):
        expected = mx.random.gumbel([64], key=noise_key(seed, position))
        assert mx.array_equal(Drawer(50, 64).noise(seed, position), expected)


def test_keys_differ_by_seed_and_by_position() -> None:
    keys = {tuple(noise_key(seed, position).tolist()) for seed in range(20) for position in range(50)}
    assert len(keys) == 1_000


def test_a_seed_counts_modulo_2_to_the_64() -> None:
    assert noise_key(-1, 3).tolist() == noise_key(2**64 - 1, 3).tolist()


def test_noise_has_the_shape_of_the_head_whatever_the_tokenizer() -> None:
    narrow, wide = Drawer(40, 64).noise(1, 2), Drawer(64, 64).noise(1, 2)
    assert narrow.shape == (64,)
    assert mx.array_equal(narrow, wide)
    # Another shape draws other numbers from the same key, so a drafter takes a slice of the target's.
    assert not mx.array_equal(Drawer(60, 60).noise(1, 2), wide[:60])


def test_noise_is_gumbel_and_finite() -> None:
    noise = np.array(Drawer(49_152, 49_152).noise(0, 0))
    assert np.all(np.isfinite(noise))
    assert abs(noise.mean() - 0.5772) < 0.02
    assert abs(noise.std() - 1.2825) < 0.02


@pytest.mark.exact
def test_noise_is_the_same_beside_other_rows() -> None:
    drawer = Drawer(5_000, 5_000)
    alone = drawer.noise(4, 9)
    mx.eval(alone)
    together = [drawer.noise(4, position) for position in range(16)]
    mx.eval(together)
    assert mx.array_equal(alone, together[9])

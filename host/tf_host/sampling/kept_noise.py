"""Noise that is kept for a while, since more than one draws with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import mlx.core as mx

from tf_host.sampling.noise import gumbel

_TOGETHER = 8
"""Positions whose noise is drawn at once: on a GPU one row takes as long as a few operations on the logits, and eight
rows take no longer."""

_KEPT = 12
"""So many times those are kept: a drafter draws with them before the target does, and after a draft that did not stand
both draw there again; four streams may do so in 16 places each."""


class KeptNoise:
    """The target's Gumbel noise by seed and position.

    Args:
        vocab: length of a row, the target's padded head.
    """

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab
        self._drawn = lru_cache(_KEPT)(self._draw)

    def at(self, seed: int, position: int) -> mx.array:
        """For the token drawn at ``position``, float32 ``[vocab]``."""
        return self.of(seed, [position]).squeeze(0)

    def of(self, seed: int, positions: Sequence[int]) -> mx.array:
        """For several positions, in any order, ``[positions, vocab]``."""
        parts = [self._drawn(seed, block)[begin:end] for block, begin, end in _runs(positions)]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts)

    def _draw(self, seed: int, block: int) -> mx.array:
        return gumbel(self._vocab, seed, range(block * _TOGETHER, (block + 1) * _TOGETHER))


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Positions that follow one another in what was drawn at once: which, from where, to where."""
    block, begin = divmod(positions[0], _TOGETHER)
    end = begin + 1
    for before, position in pairwise(positions):
        if position != before + 1 or end == _TOGETHER:
            yield block, begin, end
            block, begin = divmod(position, _TOGETHER)
            end = begin
        end += 1
    yield block, begin, end

"""Noise that is kept for a while, since more than one draws with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import mlx.core as mx

from tf_host.sampling.noise import gumbel

_PLACES = 16
"""Positions that a stream may draw at in a round."""

_MOST = 512
"""Positions that are kept at most, 250 MiB for 128,256 ids: those of 21 streams that draft, or of 64 that do not."""


class KeptNoise:
    """The target's Gumbel noise by seed and position.

    A drafter draws with it before the target does, and after a draft that did not stand both draw there again.

    Args:
        vocab: length of a row, the target's padded head.
        streams: that draw at a time; for each is kept what a round and the next may ask for.
        together: positions whose noise is drawn at once. By default 8 on a GPU, where a row takes as long as a few
            operations on the logits and eight take no longer, and 1 on a CPU, where eight take eight times as long.
    """

    def __init__(self, vocab: int, streams: int = 4, together: int | None = None) -> None:
        self._vocab = vocab
        self._together = together or (1 if mx.default_device() == mx.cpu else 8)
        kept = min(max(4, streams) * (_PLACES + self._together), _MOST)
        self._drawn = lru_cache(kept // self._together)(self._draw)

    def at(self, seed: int, position: int) -> mx.array:
        """For the token drawn at ``position``, float32 ``[vocab]``."""
        return self.of(seed, [position]).squeeze(0)

    def of(self, seed: int, positions: Sequence[int]) -> mx.array:
        """For several positions, in any order, ``[positions, vocab]``."""
        parts = [self._drawn(seed, block)[begin:end] for block, begin, end in self._runs(positions)]
        return parts[0] if len(parts) == 1 else mx.concatenate(parts)

    def _draw(self, seed: int, block: int) -> mx.array:
        return gumbel(self._vocab, seed, range(block * self._together, (block + 1) * self._together))

    def _runs(self, positions: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Positions that follow one another in what is drawn at once: which, from where, to where."""
        block, begin = divmod(positions[0], self._together)
        end = begin + 1
        for before, position in pairwise(positions):
            if position != before + 1 or end == self._together:
                yield block, begin, end
                block, begin = divmod(position, self._together)
                end = begin
            end += 1
        yield block, begin, end

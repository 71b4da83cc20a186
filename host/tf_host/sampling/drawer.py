"""One draw from one row of logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from tf_host.requests import Sampling
from tf_host.sampling.constant import constant
from tf_host.sampling.kept_noise import KeptNoise
from tf_host.sampling.order import Ranking
from tf_host.sampling.penalties import Counts

_NUCLEUS = 1_024
"""Ids ranked for top-p at first; the whole row is ranked only where they hold too little (a sort costs ten times)."""

_COLDEST = 1e-6
"""Lowest temperature that values are divided by, so that they stay finite; below it the draw is greedy but for ties."""

_MINUS_INFINITY = -math.inf


@dataclass(slots=True)
class Draw:
    """A draw to come: evaluate ``arrays()`` together with the round's, then ask for ``token()``.

    Attributes:
        drawn: the token, a lazy scalar.
        settled: whether ``drawn`` stands, a lazy scalar, or ``None`` where it always does.
        again: draws from the whole row instead.
    """

    drawn: mx.array
    settled: mx.array | None = None
    again: Callable[[], mx.array] | None = None

    def arrays(self) -> list[mx.array]:
        """What a round has to evaluate."""
        return [self.drawn] if self.settled is None else [self.drawn, self.settled]

    def token(self) -> int:
        """The token drawn."""
        if self.settled is not None and self.again is not None and not self.settled.item():
            self.drawn, self.settled = self.again(), None
        return int(self.drawn.item())  # type: ignore[arg-type]  # never complex


class Drawer:
    """Draws tokens from rows of the target's logits.

    Args:
        vocab: ids that may be drawn, the tokenizer's.
        padded_vocab: length of a row and of the noise, the target's padded head.
        streams: that draw at a time.
    """

    def __init__(self, vocab: int, padded_vocab: int, streams: int = 4) -> None:
        if not 0 < vocab <= padded_vocab:
            raise ValueError(f"a vocabulary of {vocab} does not fit a head of {padded_vocab} rows")
        self.vocab = vocab
        self.padded_vocab = padded_vocab
        self.ranking = Ranking(vocab)
        self._noise = KeptNoise(padded_vocab, streams)

    def noise(self, seed: int, position: int) -> mx.array:
        """The target's Gumbel noise ``[padded_vocab]`` float32 for the token drawn at ``position``."""
        return self._noise.at(seed, position)

    def draw(
        self,
        row: mx.array,
        sampling: Sampling,
        position: int,
        *,
        counts: Counts | None = None,
        bias: mx.array | None = None,
        mask: mx.array | None = None,
    ) -> Draw:
        """Draw the token at ``position`` from the logits ``[padded_vocab]`` of the row before it, lazily.

        Args:
            row: logits in the model's dtype.
            sampling: how to draw.
            position: absolute position of the token drawn; with the seed it keys the noise.
            counts: what stands before the row, where a penalty is on.
            bias: ``[vocab]`` float32, added to the logits.
            mask: ``[vocab]`` bool, the ids that a grammar allows.
        """
        logits = row[: self.vocab].astype(mx.float32)
        if counts is not None:
            logits = counts.penalise(logits, sampling)
        if bias is not None:
            logits = logits + bias
        if mask is not None:
            logits = mx.where(mask, logits, _MINUS_INFINITY)
        if sampling.temperature == 0:
            return Draw(mx.argmax(logits))
        noise = self.noise(sampling.seed, position)[: self.vocab]
        if 0 < sampling.top_k < self.vocab:
            return Draw(self._from_ranked(logits, noise, sampling, sampling.top_k, total=None)[0])
        if sampling.top_p < 1.0:
            return self._nucleus(logits, noise, sampling)
        return Draw(_from_rows(logits, noise, sampling))

    def draw_all(self, rows: mx.array, sampling: Sampling, positions: Sequence[int]) -> mx.array:
        """Tokens ``[R]`` drawn at the positions from ``rows [R, padded_vocab]`` among all ids, lazily.

        Each is what ``draw`` draws: the arithmetic is of single numbers, and exact for them at any shape.
        """
        logits = rows[:, : self.vocab].astype(mx.float32)
        return _from_rows(logits, self._noise.of(sampling.seed, positions)[:, : self.vocab], sampling)

    def _nucleus(self, logits: mx.array, noise: mx.array, sampling: Sampling) -> Draw:
        total = mx.sum(_weights(logits, mx.max(logits), sampling))
        if self.vocab <= _NUCLEUS:
            return Draw(self._from_ranked(logits, noise, sampling, self.vocab, total)[0])
        drawn, mass = self._from_ranked(logits, noise, sampling, _NUCLEUS, total)

        def again() -> mx.array:
            return self._from_ranked(logits, noise, sampling, self.vocab, total)[0]

        return Draw(drawn, mass >= sampling.top_p, again)

    def _from_ranked(
        self, logits: mx.array, noise: mx.array, sampling: Sampling, count: int, total: mx.array | None
    ) -> tuple[mx.array, mx.array]:
        """A draw among the ``count`` highest ids, and the probability that they hold of ``total`` weight."""
        values, ids = self.ranking.highest(logits, count)
        scores = values / _divisor(sampling)
        keep = mx.ones(count, dtype=mx.bool_)
        mass = mx.array(1.0)
        if sampling.top_p < 1.0:
            weights = _weights(values, values[0], sampling)
            cumulative = mx.cumsum(weights / (mx.sum(weights) if total is None else total))
            mass = cumulative[-1]
            # An id stays while those before it hold less than top_p; the first always does.
            keep = mx.concatenate([mx.array([True]), cumulative[:-1] < sampling.top_p])
        if sampling.min_p > 0.0:
            keep = keep & (scores >= scores[0] + math.log(sampling.min_p))
        noisy = mx.where(keep, scores + noise[ids], _MINUS_INFINITY)
        # Where nothing equals the highest, the values are not numbers; what is drawn is an id even then.
        return mx.min(mx.where(noisy == mx.max(noisy), ids, self.vocab - 1)), mass


def _from_rows(logits: mx.array, noise: mx.array, sampling: Sampling) -> mx.array:
    """Draws among all ids of the last axis, which need no order: min-p is a distance from the highest value."""
    scores = logits / constant(_divisor(sampling))
    noisy = scores + noise
    if sampling.min_p > 0.0:
        highest = mx.max(scores, axis=-1, keepdims=True)
        noisy = mx.where(scores >= highest + math.log(sampling.min_p), noisy, _MINUS_INFINITY)
    return mx.argmax(noisy, axis=-1)


def _divisor(sampling: Sampling) -> float:
    return max(sampling.temperature, _COLDEST)


def _weights(values: mx.array, highest: mx.array, sampling: Sampling) -> mx.array:
    """Probabilities before they are normalised; by powers of two, since ``exp`` is slow on a CPU (measured)."""
    return mx.power(2.0, (values - highest) * (math.log2(math.e) / _divisor(sampling)))

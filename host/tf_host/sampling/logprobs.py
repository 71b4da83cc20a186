"""Log probabilities in the target's unfiltered distribution."""

from __future__ import annotations

import mlx.core as mx

from tf_host.sampling.order import Ranking


class RowLogprobs:
    """Log-softmax of one row ``[padded_vocab]`` in float32, before any penalty, bias, mask or filter; lazy.

    Args:
        row: logits in the model's dtype.
        drawn: the token drawn after the row, a lazy scalar.
        ranking: ranks the ids that may be reported, the tokenizer's.
        vocab: how many these are.
        top: alternatives to report.
    """

    def __init__(self, row: mx.array, drawn: mx.array, ranking: Ranking, vocab: int, top: int) -> None:
        logits = row.astype(mx.float32)
        self._normalised = logits - mx.logsumexp(logits)
        self._drawn = drawn
        self._of_drawn = self._normalised[drawn]
        self._top = ranking.highest(self._normalised[:vocab], min(top, vocab)) if top > 0 else None

    def arrays(self) -> list[mx.array]:
        """What a round has to evaluate."""
        return [self._of_drawn, *(self._top or ())]

    def of(self, token: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        """The token's log probability, and the most likely ids with theirs, best first."""
        top: tuple[tuple[int, float], ...] = ()
        if self._top is not None:
            values, ids = self._top
            top = tuple(zip(map(int, ids.tolist()), map(float, values.tolist()), strict=True))  # type: ignore[arg-type]
        # Gathered with the round's other arrays; a token drawn again (see Draw) is looked up.
        chosen = self._of_drawn if token == self._drawn.item() else self._normalised[token]
        return scalar(chosen), top


def scalar(array: mx.array) -> float:
    """A number read back from an array of one."""
    return float(array.item())  # type: ignore[arg-type]  # never complex

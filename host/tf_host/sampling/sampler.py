"""The draws of one stream."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_host.requests import Sampling
from tf_host.sampling.drawer import Draw, Drawer
from tf_host.sampling.logprobs import RowLogprobs
from tf_host.sampling.penalties import Counts
from tf_host.sampling.window_draws import WindowDraws
from tf_plugins.types import Leaf


class Sampler:
    """Draws for one stream, and counts what its penalties need.

    Args:
        drawer: the server's.
        sampling: the request's.
        prompt: its prompt.
        logprobs: alternatives to report a token, or ``None`` for no logprobs.
    """

    def __init__(self, drawer: Drawer, sampling: Sampling, prompt: Sequence[int], logprobs: int | None = None) -> None:
        self._drawer = drawer
        self._sampling = sampling
        self._logprobs = logprobs
        self._counts = Counts.of(sampling, prompt, drawer.vocab)
        self._bias = _dense(sampling, drawer.vocab)

    @property
    def reads_nothing(self) -> bool:
        """Whether a draw needs none of the reply's tokens: no penalty is on."""
        return self._counts is None

    def window(
        self,
        rows: mx.array,
        position: int,
        drafts: Sequence[int] = (),
        masks: Sequence[mx.array | None] | None = None,
        leaves: Sequence[Leaf] = (),
    ) -> WindowDraws:
        """Draw after every row of a window, lazily.

        Args:
            rows: logits ``[1 + len(drafts) + len(leaves), padded_vocab]``: the pending token's row, then each draft's,
                then each leaf's.
            position: absolute position of the first token drawn.
            drafts: the window's drafts; row ``j`` stands after the first ``j``.
            masks: ``[vocab]`` bool a row, or ``None`` for all ids.
            leaves: what is verified in the drafts' places; each stands after the drafts before its place.
        """
        sound = _sound(rows[:, : self._drawer.vocab])
        unmasked = masks is None or all(mask is None for mask in masks)
        if self._counts is None and self._bias is None and unmasked and self._needs_no_order:
            positions = [*range(position, position + len(drafts) + 1), *(position + 1 + leaf.place for leaf in leaves)]
            drawn = self._drawn(rows, positions)
            return WindowDraws(drawn, sound, self._row_logprobs(rows, drawn))
        before = [self._counts]
        for draft in drafts:
            before.append(before[-1] and before[-1].after([draft]))
        stands = [*enumerate(before)]
        for leaf in leaves:
            counts = before[leaf.place]
            stands.append((leaf.place + 1, counts and counts.after([leaf.token])))
        draws: list[Draw] = []
        for row, (behind, counts) in enumerate(stands):
            mask, place = None if masks is None else masks[row], position + behind
            draws.append(self._drawer.draw(rows[row], self._sampling, place, counts=counts, bias=self._bias, mask=mask))
        return WindowDraws(draws, sound, self._row_logprobs(rows, [draw.drawn for draw in draws]))

    @property
    def _needs_no_order(self) -> bool:
        """Whether a draw needs no order of the ids."""
        sampling = self._sampling
        return sampling.temperature == 0 or (sampling.top_p >= 1 and not 0 < sampling.top_k < self._drawer.vocab)

    def _drawn(self, rows: mx.array, positions: Sequence[int]) -> mx.array:
        """All rows' tokens at once. Comparisons are exact, so any number of rows may share one argmax."""
        if self._sampling.temperature == 0:
            return mx.argmax(rows[:, : self._drawer.vocab], axis=-1)
        return self._drawer.draw_all(rows, self._sampling, positions)

    def _row_logprobs(self, rows: mx.array, drawn: Sequence[mx.array] | mx.array) -> list[RowLogprobs] | None:
        if self._logprobs is None:
            return None
        vocab, ranking = self._drawer.vocab, self._drawer.ranking
        return [RowLogprobs(rows[row], drawn[row], ranking, vocab, self._logprobs) for row in range(rows.shape[0])]

    def commit(self, tokens: Sequence[int]) -> None:
        """Tokens that became part of the reply."""
        if self._counts is not None:
            self._counts = self._counts.after(tokens)


def _sound(rows: mx.array) -> mx.array:
    """Bool ``[R]``: whether all logits of a row are numbers."""
    return mx.all(rows == rows, axis=-1)


def _dense(sampling: Sampling, vocab: int) -> mx.array | None:
    """The logit bias as ``[vocab]`` float32, or ``None`` where there is none."""
    known = {token: bias for token, bias in sampling.logit_bias.items() if 0 <= token < vocab}
    if not known:
        return None
    bias = mx.zeros(vocab)
    bias[mx.array(list(known))] = mx.array(list(known.values()), dtype=mx.float32)
    return bias

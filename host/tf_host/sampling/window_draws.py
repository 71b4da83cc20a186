"""The draws of one window, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx

from tf_host.requests import TokenInfo
from tf_host.sampling.drawer import Draw
from tf_host.sampling.logprobs import RowLogprobs

_NONE = -1


class NotNumbers(ArithmeticError):
    """Logits of which nothing can be drawn."""


class WindowDraws:
    """The draws of one window's rows: evaluate ``arrays()``, then ask for the rows that stand, in order.

    Args:
        draws: one a row, or every row's token ``[rows]``.
        sound: bool ``[rows]``, whether the logits that they were drawn from are numbers.
        logprobs: one a row, where they were asked for.
    """

    def __init__(
        self, draws: Sequence[Draw] | mx.array, sound: mx.array, logprobs: Sequence[RowLogprobs] | None
    ) -> None:
        self._draws = draws
        if isinstance(draws, mx.array):
            # One array, since each that is read takes a GPU a tenth of a millisecond.
            self._told = mx.where(sound, draws.astype(mx.int32), _NONE)
        else:
            self._told = mx.where(sound, 0, _NONE)
        self._logprobs = logprobs
        self._read: list[int] | None = None

    def arrays(self) -> list[mx.array]:
        """What a round has to evaluate."""
        drawn = [] if isinstance(self._draws, mx.array) else [array for draw in self._draws for array in draw.arrays()]
        return [self._told, *drawn, *(array for row in self._logprobs or () for array in row.arrays())]

    def next_token(self) -> mx.array | None:
        """The only row's token as a lazy array ``[1]``, or ``None`` where it must be read first."""
        if isinstance(self._draws, mx.array):
            return self._draws
        [draw] = self._draws
        return None if draw.settled is not None else draw.drawn.reshape(1)

    def token(self, row: int) -> int:
        """The target's own token after the window's row ``row``.

        Raises:
            NotNumbers: its logits are none, as those of broken weights or of a failed forward.
        """
        told = self._read or cast(list[int], self._told.tolist())
        self._read = told
        if told[row] == _NONE:
            raise NotNumbers("the model's logits are not numbers")
        return told[row] if isinstance(self._draws, mx.array) else self._draws[row].token()

    def info(self, row: int, token: int, source: str) -> TokenInfo:
        """What the client is told of the token after row ``row``."""
        if self._logprobs is None:
            return TokenInfo(token, source)
        logprob, top = self._logprobs[row].of(token)
        return TokenInfo(token, source, logprob, top)

"""The draws of one window, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import mlx.core as mx

from tf_host.requests import TokenInfo
from tf_host.sampling.constant import constant
from tf_host.sampling.drawer import Draw
from tf_host.sampling.logprobs import RowLogprobs

_NONE = -1


class NotNumbers(ArithmeticError):
    """Logits of which nothing can be drawn."""


class _Told:
    """Whole numbers that are read once."""

    def __init__(self, array: mx.array) -> None:
        self.array = array

    @cached_property
    def numbers(self) -> list[int]:
        return cast(list[int], self.array.tolist())


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
        # One array, since each that is read takes a GPU a tenth of a millisecond.
        known = draws.astype(mx.int32) if isinstance(draws, mx.array) else constant(0, mx.int32)
        self._told, self._first = _Told(mx.where(sound, known, constant(_NONE, mx.int32))), 0
        self._logprobs = logprobs

    @staticmethod
    def together(draws: Sequence[WindowDraws]) -> None:
        """Read these as one array. Not where a round is queued behind theirs: what is copied waits for that, too."""
        told, first = _Told(mx.concatenate([each._told.array for each in draws])), 0
        for each in draws:
            rows = each._told.array.shape[0]
            each._told, each._first, first = told, first, first + rows

    def arrays(self) -> list[mx.array]:
        """What a round has to evaluate."""
        drawn = [] if isinstance(self._draws, mx.array) else [array for draw in self._draws for array in draw.arrays()]
        return [self._told.array, *drawn, *(array for row in self._logprobs or () for array in row.arrays())]

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
        token = self._told.numbers[self._first + row]
        if token == _NONE:
            raise NotNumbers("the model's logits are not numbers")
        return token if isinstance(self._draws, mx.array) else self._draws[row].token()

    def info(self, row: int, token: int, source: str) -> TokenInfo:
        """What the client is told of the token after row ``row``."""
        if self._logprobs is None:
            return TokenInfo(token, source)
        logprob, top = self._logprobs[row].of(token)
        return TokenInfo(token, source, logprob, top)

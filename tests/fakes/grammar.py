"""A grammar for tests: pairs of one even and one odd id, the odd one forced after a zero."""

from __future__ import annotations

import numpy as np

from tests.fakes.model import VOCAB


class PairGrammar:
    """Implements ``Grammar``: even and odd ids take turns; after 0 only 1 may come.

    Args:
        raises: a method that raises.
    """

    def __init__(self, raises: str = "") -> None:
        self.tokens: list[int] = []
        self.raises = raises

    def mask(self, path: tuple[int, ...]) -> object:
        self._called("mask")
        return np.array([self._fits((*self.tokens, *path), token) for token in range(VOCAB)])

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        self._called("allowed_prefix")
        path = list(self.tokens)
        for count, token in enumerate(draft):
            if not self._fits(path, token):
                return count
            path.append(token)
        return len(draft)

    def commit(self, tokens: tuple[int, ...]) -> None:
        self._called("commit")
        for token in tokens:
            assert self._fits(self.tokens, token), (self.tokens, token)
            self.tokens.append(token)

    def forced(self) -> tuple[int, ...]:
        self._called("forced")
        return (1,) if self.tokens and self.tokens[-1] == 0 and len(self.tokens) % 2 else ()

    @staticmethod
    def _fits(path: tuple[int, ...] | list[int], token: int) -> bool:
        if path and path[-1] == 0 and len(path) % 2:
            return token == 1
        return token % 2 == len(path) % 2

    def _called(self, method: str) -> None:
        if method == self.raises:
            raise RuntimeError(f"planted in {method}")

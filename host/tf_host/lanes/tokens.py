"""A stream's tokens as its proposers see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class Tokens(Sequence[int]):
    """A read-only view of a token list; makes no copy, so a round costs the same at any context."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._tokens[index]

"""A stream's tokens as its proposers see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class Tokens(Sequence[int]):
    """A read-only view, without a copy: what a ``Sequence`` has and no more, so no ``+`` and no equality with a list.

    Slices are of the kind that is looked at: tuples of a prompt, lists of what grows.

    Args:
        tokens: what it shows, also once that has changed.
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._tokens[index]

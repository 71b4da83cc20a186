"""Bytes for people, and the tokens that fit in them."""

from __future__ import annotations

from collections.abc import Callable

GIB = 1 << 30


def gib(nbytes: int) -> str:
    """``"9.5 GiB"``; small sizes in MiB, ``"nothing"`` for none."""
    if not nbytes:
        return "nothing"
    return f"{nbytes / GIB:.1f} GiB" if abs(nbytes) >= GIB // 10 else f"{nbytes / (1 << 20):.1f} MiB"


def most_tokens(bytes_for: Callable[[int], int], budget: int, top: int) -> int:
    """The most tokens up to ``top`` that a stream may have within ``budget``, 0 when not even one fits."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if bytes_for(middle) <= budget else (low, middle - 1)
    return low

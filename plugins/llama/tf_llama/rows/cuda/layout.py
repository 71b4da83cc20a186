"""A whole forward's plan as the kernel reads it: which rows are whose, where they stand and where they are written."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from tf_llama.rows.cuda import plan
from tf_llama.rows.span import Span

__all__ = ["RowsLayout"]

_STRETCH = struct.Struct("<2i4h")
_ROWS = struct.Struct(f"<{plan.ROWS}i{plan.ROWS}i{plan.ROWS}b{plan.ROWS}i")

_UNKNOWN = -1
"""Stands for a token that only the device knows."""


@dataclass(frozen=True, slots=True)
class RowsLayout:
    """The rows of all spans.

    Attributes:
        packed: shape.cuh's ``Plan`` and the tokens, ``BYTES`` in all.
        sums: rows of attention's sums: of every span, its rows times the splits of its keys.
    """

    packed: bytes
    sums: int

    BYTES: ClassVar[int] = 8 + _STRETCH.size * plan.STREAMS + _ROWS.size

    @classmethod
    def of(cls, spans: Sequence[Span], tokens: Sequence[int] | None) -> RowsLayout:
        """At most ``plan.ROWS`` rows, of the tokens where they are known."""
        begin = sums = parts = 0
        stretches = bytearray()
        for span in spans:
            splits, leaves = plan.splits(max(span.positions) + 1), len(span.leaves)
            stretches += _STRETCH.pack(span.cache.capacity, sums, begin, span.rows, leaves, splits)
            begin, sums, parts = begin + span.rows, sums + splits * span.rows, parts + splits + leaves
        stretches += bytes(_STRETCH.size * (plan.STREAMS - len(spans)))
        streams = [at for at, span in enumerate(spans) for _ in range(span.rows)]
        rows = (
            _padded(chain.from_iterable(span.positions for span in spans)),
            _padded(chain.from_iterable(span.written for span in spans)),
            _padded(streams),
            _padded(tokens if tokens is not None else [_UNKNOWN] * begin),
        )
        packed = struct.pack("<2i", begin, parts) + stretches + _ROWS.pack(*chain.from_iterable(rows))
        return cls(packed, sums)


def _padded(numbers: chain[int] | Sequence[int]) -> list[int]:
    known = list(numbers)
    return known + [0] * (plan.ROWS - len(known))

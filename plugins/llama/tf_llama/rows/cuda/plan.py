"""How the kernels cut their work: slices of a product's depth, splits of the keys. Arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    *("AHEAD", "LONG", "MIDDLE", "ROWS", "RUN", "SHORT", "STREAMS", "UNTIL_MIDDLE", "UNTIL_SHORT", "WIDTHS", "Width"),
    *("held", "slices", "splits", "width"),
]

ROWS = 16
"""Rows of a product: two columns of the matrix instruction, and as many as a window has at most."""

RUN = 32
"""Numbers of a row that a warp multiplies at once; 64 bytes of each weight row."""

AHEAD = 7
"""Runs that a warp has under way. With eight warps they are 57 KB a multiprocessor, more than latency asks for: on an
H200 7 of them read 4.25 TB/s, 5 read 3.95 (a copy there moves 4.28)."""

STREAMS = ROWS
"""Streams of a whole forward at most: each has a row."""

WIDTHS = (8, ROWS)
"""Rows that a whole forward has room for: fewer of them leave room for more weights under way."""

_WARPS = 8
_MOST_AHEAD = 16
_STATIC = 768
"""Bytes of static shared memory that a whole forward may take beside its dynamic ones; it takes 640."""

_KEYS = 32
_MOST_STAGES = 6
"""Keys that a block has under way in a whole forward, by the 32: it is alone on its multiprocessor, and has room."""

SHORT, UNTIL_SHORT, MIDDLE, UNTIL_MIDDLE, LONG = 64, 512, 128, 2_048, 512
"""Keys that one block attends over: 64 each of the first 512, 128 up to 2,048, 512 from there on."""


@dataclass(frozen=True, slots=True)
class Width:
    """How whole forwards of up to so many rows use shared memory.

    Attributes:
        rows: that there is room for.
        ahead: runs that a warp has under way.
        stages: keys under way, by the 32.
        memory: bytes of dynamic shared memory.
    """

    rows: int
    ahead: int
    stages: int
    memory: int


def held(depth: int) -> int:
    """Bytes of shared memory of a block that keeps ``depth`` numbers of every row."""
    return _ring(ROWS, AHEAD) + _kept(ROWS, depth)


def width(rows: int, depth: int, size: int, shared: int) -> Width | None:
    """A whole forward's use of shared memory; ``None`` where it does not fit.

    Args:
        rows: that it has room for.
        depth: the longest that a block keeps of a row.
        size: numbers of a head.
        shared: bytes that a block may have.
    """
    stage = 2 * _KEYS * (size * 2 + 16)
    kept = max(_kept(rows, depth), 2 * stage)
    for ahead in range(_MOST_AHEAD, 3, -1):
        memory = _ring(rows, ahead) + kept
        if memory <= shared - _STATIC:
            return Width(rows, ahead, min(_MOST_STAGES, kept // stage), memory)
    return None


def _ring(rows: int, ahead: int) -> int:
    return _WARPS * (rows * 20 * 4 + ahead * 16 * RUN * 2)


def _kept(rows: int, depth: int) -> int:
    return rows * (depth * 2 + 16)


def slices(depth: int, shared: int) -> int | None:
    """Into how few parts a depth is cut so that a block can keep its part of the rows; ``None`` where none fits."""
    for count in range(1, depth // RUN + 1):
        if depth % (count * RUN) == 0 and held(depth // count) <= shared:
            return count
    return None


def splits(keys: int) -> int:
    """Blocks that attend over the first ``keys`` keys, a key head each."""
    short = min(keys, UNTIL_SHORT)
    middle = min(max(keys - UNTIL_SHORT, 0), UNTIL_MIDDLE - UNTIL_SHORT)
    long = max(keys - UNTIL_MIDDLE, 0)
    return -(-short // SHORT) + -(-middle // MIDDLE) + -(-long // LONG)

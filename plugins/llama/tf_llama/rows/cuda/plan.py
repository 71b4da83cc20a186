"""How the kernels cut their work: slices of a product's depth, splits of the keys. Arithmetic alone."""

from __future__ import annotations

__all__ = ["AHEAD", "LONG", "MIDDLE", "ROWS", "RUN", "SHORT", "UNTIL_MIDDLE", "UNTIL_SHORT", "held", "slices", "splits"]

ROWS = 16
"""Rows of a product: two columns of the matrix instruction, and as many as a window has at most."""

RUN = 32
"""Numbers of a row that a warp multiplies at once; 64 bytes of each weight row."""

AHEAD = 7
"""Runs that a warp has under way. With eight warps they are 57 KB a multiprocessor, more than latency asks for: on an
H200 7 of them read 4.25 TB/s, 5 read 3.95 (a copy there moves 4.28)."""

_WARPS = 8
_SUMS = _WARPS * ROWS * 20 * 4
_LOADS = _WARPS * AHEAD * ROWS * RUN * 2

SHORT, UNTIL_SHORT, MIDDLE, UNTIL_MIDDLE, LONG = 64, 512, 128, 2_048, 512
"""Keys that one block attends over: 64 each of the first 512, 128 up to 2,048, 512 from there on."""


def held(depth: int) -> int:
    """Bytes of shared memory of a block that keeps ``depth`` numbers of every row."""
    return _SUMS + _LOADS + ROWS * (depth * 2 + 16)


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

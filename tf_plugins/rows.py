"""The plan that makes rows exact: every shape follows from a row's absolute position alone.

Pure arithmetic, shared by the host (which cuts windows and prompts) and the families (which run them).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

__all__ = ["RowPlan", "bucket_edges", "rung_ladder"]

# Up to each limit, buckets step by this many keys. Every kernel switch that MLX is known to have (1,024, 4,096,
# 8,192, 16,384, 32,768, 65,536 keys) falls on an edge.
_BUCKET_STEPS = ((2_048, 256), (4_096, 512), (16_384, 1_024), (65_536, 4_096), (1 << 62, 16_384))

# Cache capacities double up to 8,192 positions and then step by that, or as buckets do where they are wider, so a few
# layouts serve every request and each holds the bucket of its last position.
_RUNG_FIRST, _RUNG_STEP = 512, 8_192


def bucket_edges(context: int) -> tuple[int, ...]:
    """Key-view lengths from 256 up to the first edge that holds ``context`` positions."""
    edges: list[int] = []
    edge = 0
    while edge < context:
        edge += _bucket_step(edge)
        edges.append(edge)
    return tuple(edges)


def rung_ladder(context: int) -> tuple[int, ...]:
    """Cache lengths in positions (without the tile) up to the first that holds the last bucket of ``context``."""
    top = bucket_edges(context)[-1]
    rungs = [_RUNG_FIRST]
    while rungs[-1] < top:
        last = rungs[-1]
        rungs.append(2 * last if last < _RUNG_STEP else last + max(_RUNG_STEP, _bucket_step(last)))
    return tuple(rungs)


def _bucket_step(edge: int) -> int:
    """From a bucket's edge to the next."""
    return next(step for limit, step in _BUCKET_STEPS if edge < limit)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """One plan for everything that a server runs.

    Attributes:
        widths: the band: padded row counts that a decode forward may have, ascending.
        tile: attention queries a call.
        context: longest stream in positions.
        edges: bucket edges.
        rungs: cache lengths.
        grid: a prompt chunk starts at every multiple of this position.
        chunk_rows: row counts that a prompt chunk is padded to, ascending; the last is at least ``grid``.
        markers: token ids that also start a chunk.
        gap: positions that a marker must be past the last chunk start.
    """

    widths: tuple[int, ...]
    tile: int
    context: int
    edges: tuple[int, ...]
    rungs: tuple[int, ...]
    grid: int
    chunk_rows: tuple[int, ...]
    markers: frozenset[int] = frozenset()
    gap: int = 256

    @classmethod
    def for_device(
        cls,
        kind: str,
        context: int,
        *,
        widths: tuple[int, ...] = (1,),
        tile: int = 1,
        markers: frozenset[int] = frozenset(),
    ) -> RowPlan:
        """The plan of a device class: a grid of 64 on a CPU; 2,048 and the markers on a GPU."""
        on_cpu = kind == "cpu"
        return cls(
            widths=widths,
            tile=tile,
            context=context,
            edges=bucket_edges(context),
            rungs=rung_ladder(context),
            grid=64 if on_cpu else 2_048,
            chunk_rows=(16, 64) if on_cpu else (16, 64, 256, 2_048),
            markers=frozenset() if on_cpu else markers,
        )

    def with_band(self, widths: tuple[int, ...], tile: int) -> RowPlan:
        """The same plan with another band and tile."""
        return replace(self, widths=widths, tile=tile)

    @property
    def top(self) -> int:
        """Most rows of one decode forward."""
        return self.widths[-1]

    def padded(self, rows: int) -> int:
        """The band's smallest width that holds ``rows``; ``ValueError`` past the top."""
        if not 1 <= rows <= self.top:
            raise ValueError(f"{rows} rows do not fit a forward of 1 to {self.top}")
        return self.widths[bisect_left(self.widths, rows)]

    def bucket(self, position: int) -> int:
        """Length of the key view that a row at ``position`` attends over; holds positions 0 to ``position``."""
        return self.edges[bisect_left(self.edges, position + 1)]

    def room(self, position: int) -> int:
        """Rows from ``position`` on that share its bucket, itself included; a window is cut there."""
        return self.bucket(position) - position

    def capacity(self, tokens: int) -> int:
        """Positions that a cache for ``tokens`` has: its rung, and a tile (or prompt chunk) of padding rows."""
        return self.rungs[bisect_left(self.rungs, tokens)] + max(self.tile, self.chunk_rows[0])

    def chunk_starts(self, tokens: Sequence[int]) -> Iterator[int]:
        """Chunk starts of a prompt, ascending; whether ``p`` is one depends on ``tokens[: p + 1]`` alone."""
        marked = [at for at, token in enumerate(tokens) if token in self.markers] if self.markers else []
        place = 0
        for cell in range(0, len(tokens), self.grid):
            last = cell
            yield cell
            while place < len(marked) and marked[place] < cell + self.grid:
                if marked[place] - last >= self.gap:
                    last = marked[place]
                    yield last
                place += 1

    def chunks(self, tokens: Sequence[int], start: int = 0) -> Iterator[tuple[int, int]]:
        """``(begin, end)`` of the chunks to read from chunk start ``start``, the last prompt token left out.

        The last prompt token is always a decode row, so that the first reply token comes from a decode shape.
        """
        end = len(tokens) - 1
        starts = [s for s in self.chunk_starts(tokens) if start <= s < end]
        yield from pairwise([*starts, end])

    def chunk_padded(self, rows: int) -> int:
        """Rows that a prompt chunk of ``rows`` is padded to."""
        return self.chunk_rows[bisect_left(self.chunk_rows, rows)]

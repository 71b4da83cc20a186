"""Windows into forwards."""

from __future__ import annotations

from collections.abc import Sequence


def pack(rows: Sequence[int], top: int) -> list[list[int]]:
    """Indices of the windows of each forward: at most ``top`` rows a forward, each window whole.

    Every window goes into the first forward that has room, in order, so four windows of 9, 9, 7 and 7 rows make two
    forwards of 16.

    Args:
        rows: rows of each window, 1 to ``top``.
        top: most rows of a forward.
    """
    forwards: list[list[int]] = []
    room: list[int] = []
    for index, count in enumerate(rows):
        if not 1 <= count <= top:
            raise ValueError(f"a window of {count} rows does not fit a forward of 1 to {top}")
        place = next((i for i, left in enumerate(room) if left >= count), None)
        if place is None:
            forwards.append([])
            room.append(top)
            place = len(forwards) - 1
        forwards[place].append(index)
        room[place] -= count
    return forwards

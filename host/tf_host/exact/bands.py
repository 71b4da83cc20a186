"""Bands: groups of row counts whose rows agree bit for bit, and the rule that picks one.

The rule looks at bits alone, never at a timing, so two servers on one machine agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Band = tuple[int, ...]
"""Row counts that agree, ascending."""

WIDTHS: Band = (*range(1, 17), 24, 32)
"""Row counts that are probed, the same whatever the flags."""

_WINDOW = 8
"""Rows that a band should reach, so that a window holds a useful draft."""

_GPU_REACH = 16
"""Rows past which a wider band brings nothing on a GPU: the pending token and 15 drafts."""

_GPU_STEP = 16
"""Rows that cost a GPU as much as one (measured on an H200), and its widest attention tile."""


def agreeing(digests: Mapping[int, Sequence[bytes]]) -> list[Band]:
    """Group the widths of one operation.

    Args:
        digests: for each width, the digests of the same rows in several arrangements (slots, neighbours).

    Returns:
        Groups of widths whose rows agree in every arrangement. A width whose own arrangements differ is in none.
    """
    groups: dict[bytes, list[int]] = {}
    for width, arrangements in sorted(digests.items()):
        if len(set(arrangements)) == 1:
            groups.setdefault(arrangements[0], []).append(width)
    return [tuple(group) for group in groups.values()]


def intersect(operations: Iterable[Sequence[Band]]) -> list[Band]:
    """Bands of a whole model: widths stay together only where they do in every operation."""
    signatures: dict[int, list[int]] = {}
    count = 0
    for groups in operations:
        count += 1
        for index, group in enumerate(groups):
            for width in group:
                signatures.setdefault(width, []).append(index)
    bands: dict[tuple[int, ...], list[int]] = {}
    for width in sorted(signatures):
        if len(signatures[width]) == count:
            bands.setdefault(tuple(signatures[width]), []).append(width)
    return [tuple(band) for band in bands.values()]


def choose(bands: Sequence[Band], kind: str) -> Band | None:
    """The one band that everything is padded to.

    Among the bands that reach at least 8 rows: on a CPU the one with the smallest minimum (ties: the widest), since a
    plain row is padded to that minimum; on a GPU the one with the widest reach up to 16 rows (ties: the smallest
    minimum), since rows are nearly free there. ``None`` where no band reaches 8 rows.

    Of a band that reaches 16, a GPU uses the multiples of 16 and the top: a forward of whole tiles needs no copies. A
    band that begins with one row has kernels that take rows as they come, so all of it is used.
    """
    reaching = [band for band in bands if band[-1] >= _WINDOW]
    if not reaching:
        return None
    if kind == "cpu":
        return min(reaching, key=lambda band: (band[0], -band[-1]))
    band = min(reaching, key=lambda band: (-min(band[-1], _GPU_REACH), band[0]))
    if band[-1] < _GPU_STEP or band[0] == 1:
        return band
    return tuple(width for width in band if width % _GPU_STEP == 0 or width == band[-1])

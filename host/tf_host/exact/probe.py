"""The load-time probe: which widths and which tile give a row the same bits, on the real weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tf_host.exact.bands import WIDTHS, Band, agreeing, choose, intersect
from tf_host.exact.replay import replay
from tf_host.exact.verdict import OperationRow, Verdict
from tf_plugins.rows import RowPlan
from tf_plugins.types import Model, Progress, TileCheck, WidthCheck

_TILES = {"cpu": (1, 2, 4, 8, 16), "gpu": (16, 8, 4, 2, 1)}
"""Tiles in the order tried. A CPU pays for every padded query (measured: 16 cost ten times one); a GPU does not."""


def probe(model: Model, base: RowPlan, kind: str, key: str, sample: Sequence[int], progress: Progress) -> Verdict:
    """Measure every operation of ``model`` and replay a reply through windows.

    Args:
        model: the loaded target; left with the verdict's plan in use.
        base: the plan of the device class and context, its band and tile not chosen yet.
        kind: ``"cpu"`` or ``"gpu"``.
        key: the verdict's key.
        sample: ids of a real text, at least 250, for the replay.
        progress: told what is being measured.

    Returns:
        A verdict. Where an operation cannot be proven, one that is not exact and names it.
    """
    checks = model.checks()
    table: list[OperationRow] = []
    grouped: list[Sequence[Band]] = []
    widths = [check for check in checks if isinstance(check, WidthCheck)]
    for done, check in enumerate(widths):
        progress(f"probing {check.name}", done / (len(widths) + 2))
        groups = agreeing({w: (check.digest(w, False), check.digest(w, True)) for w in WIDTHS})
        table.append(OperationRow(check.name, _show(groups), check.outputs))
        grouped.append(groups)
    bands = intersect(grouped)
    table.append(OperationRow("all row operations", _show(bands)))

    def failed(operation: str) -> Verdict:
        return Verdict(False, (WIDTHS[0],), 1, base.rungs[-1:], tuple(table), operation, key)

    band = choose(bands, kind)
    if band is None:
        narrow = next(
            (row.name for row, groups in zip(table, grouped, strict=False) if choose(groups, kind) is None),
            "",
        )
        return failed(narrow or "the widths that agree in every operation")

    progress("probing attention", len(widths) / (len(widths) + 2))
    tiles = [check for check in checks if isinstance(check, TileCheck)]
    found = _first_tile(tiles, kind, base.rungs)
    if found is None:
        return failed(tiles[0].name)
    tile, rungs = found
    table.extend(OperationRow(check.name, f"tile {tile}, {len(rungs)} cache lengths") for check in tiles)

    plan = replace(base, widths=band, tile=tile, rungs=rungs)
    model.use(plan)
    progress("replaying a reply", (len(widths) + 1) / (len(widths) + 2))
    difference = replay(model, plan, sample)
    if difference is not None:
        return failed(f"whole model, {difference}")
    table.append(OperationRow("whole model, windows against single steps", f"rows {_show([band])}"))
    progress("probing", 1.0)
    return Verdict(True, band, tile, rungs, tuple(table), "", key)


def _first_tile(checks: Sequence[TileCheck], kind: str, rungs: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
    """The first tile that every check passes at; where cache lengths differ in bits, with the longest alone."""
    for ladder in (rungs, rungs[-1:]):
        for tile in _TILES[kind]:
            if all(_equal(check.variants(tile, ladder)) for check in checks):
                return tile, ladder
    return None


def _equal(variants: Iterable[tuple[str, bytes]]) -> bool:
    """Whether all digests of one group (the label up to the first colon) are equal."""
    groups: dict[str, bytes] = {}
    return all(groups.setdefault(label.partition(":")[0], digest) == digest for label, digest in variants)


def _show(bands: Sequence[Band]) -> str:
    """Bands as people write them: ``{1} {2..15} {16,24,32}``."""
    return " ".join("{" + _ranges(band) + "}" for band in bands) or "none"


def _ranges(band: Band) -> str:
    runs: list[list[int]] = []
    for width in band:
        if runs and width == runs[-1][-1] + 1:
            runs[-1].append(width)
        else:
            runs.append([width])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)

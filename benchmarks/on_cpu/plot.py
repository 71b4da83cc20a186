"""Tokens a second by prompt kind, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.on_cpu.results import Stage
from benchmarks.on_cpu.stages import DRAFTER, NONE, PLAIN

COLOURS = {PLAIN: "#b8b8b8", NONE: "#6b9ac4", DRAFTER: "#1b4965"}
NAMES = {PLAIN: "no drafts", NONE: "copies", DRAFTER: "drafter and copies"}


def draw(results: Mapping[str, Stage], path: Path) -> bool:
    """Draw what the stages ``pair`` and ``plain`` found to ``path``; ``False`` where there is nothing to draw."""
    bars: dict[str, dict[str, float]] = {}
    for stage in ("plain", "pair"):
        if stage in results:
            for label in (PLAIN, NONE, DRAFTER):
                if by_kind := results[stage].by_kind(label):
                    bars[label] = {kind: median(rates) for kind, rates in by_kind.items()}
    if not bars:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinds = sorted({kind for rates in bars.values() for kind in rates})
    labels = [label for label in (PLAIN, NONE, DRAFTER) if label in bars]
    width = 0.8 / len(labels)
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    for place, label in enumerate(labels):
        at = [index + (place - (len(labels) - 1) / 2) * width for index in range(len(kinds))]
        heights = [bars[label].get(kind, 0.0) for kind in kinds]
        drawn = axes.bar(at, heights, width * 0.92, label=NAMES[label], color=COLOURS[label])
        axes.bar_label(drawn, fmt="%.0f", fontsize=7)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_ylabel("tokens a second")
    axes.set_title("Greedy, one stream, by prompt kind (medians)", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True

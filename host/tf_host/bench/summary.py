"""What a cell's windows come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from tf_host.bench.windows import Cell, Window

__all__ = ["CellSummary", "percentile", "summarise"]


@dataclass(slots=True)
class CellSummary:
    """One cell on one server, and against the other where there is one.

    Attributes:
        label: the server.
        cell: the cell.
        windows: windows that were run.
        failed: windows in which a reply failed or was cut off; nothing below counts them.
        rates: tokens a second, a window each.
        seconds: wall seconds of whole requests, a reply each.
        tokens, rounds: of all replies; ``rounds`` is 0 where the server doesn't say.
        drafted, kept: drafts by source, where the server says.
        alone, serial, same: ``[equal, compared]`` with each reply alone, undrafted, and on the other server.
        ratios: this server's rate over the other's, a pair of windows each.
        time_ratios: the other's wall time over this one's, of the whole window.
        behind: pairs in which this server was the slower.
    """

    label: str
    cell: Cell
    windows: int = 0
    failed: int = 0
    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    rounds: int = 0
    drafted: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    alone: list[int] = field(default_factory=lambda: [0, 0])
    serial: list[int] = field(default_factory=lambda: [0, 0])
    same: list[int] = field(default_factory=lambda: [0, 0])
    ratios: list[float] = field(default_factory=list)
    time_ratios: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """Median tokens a second."""
        return median(self.rates) if self.rates else None

    @property
    def wall(self) -> float | None:
        """Median wall seconds of a whole request."""
        return median(self.seconds) if self.seconds else None

    @property
    def tokens_a_round(self) -> float | None:
        """Reply tokens a round."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def behind(self) -> int:
        """Pairs in which this server was the slower."""
        return sum(ratio < 1 for ratio in self.ratios)

    @property
    def passed(self) -> bool:
        """Whether nothing failed and every reply was the same alone and undrafted; another server may differ."""
        return not self.failed and all(equal == of for equal, of in (self.alone, self.serial))


def summarise(steps: Sequence[tuple[Window, ...]]) -> list[CellSummary]:
    """Every cell of every server; the first server's cells hold the comparison with the second."""
    found: dict[tuple[int, Cell], CellSummary] = {}
    for windows in steps:
        for place, window in enumerate(windows):
            summary = found.setdefault((place, window.cell), CellSummary(window.label, window.cell))
            _add(summary, window)
        if len(windows) > 1:
            _compare(found[0, windows[0].cell], windows[0], windows[1])
    return [found[key] for key in sorted(found, key=lambda key: (key[1].temperature, key[1].streams, key[0]))]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie, between neighbours linearly."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _add(summary: CellSummary, window: Window) -> None:
    summary.windows += 1
    for tally, results in ((summary.alone, window.alone), (summary.serial, window.serial)):
        tally[0] += sum(results)
        tally[1] += len(results)
    if not window.whole:
        summary.failed += 1
        return
    if window.rate is not None:
        summary.rates.append(window.rate)
    for reply in window.replies:
        summary.seconds.append(reply.seconds)
        summary.tokens += reply.tokens
        summary.rounds += int(reply.tf.get("rounds", 0))
        for source, counts in (reply.tf.get("sources") or {}).items():
            summary.drafted[source] += counts["drafted"]
            summary.kept[source] += counts["accepted"]


def _compare(summary: CellSummary, window: Window, other: Window) -> None:
    same = window.same(other)
    summary.same[0] += sum(same)
    summary.same[1] += len(same)
    if window.rate and other.rate:
        summary.ratios.append(window.rate / other.rate)
    if window.whole and other.whole and window.seconds > 0:
        summary.time_ratios.append(other.seconds / window.seconds)

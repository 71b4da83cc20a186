"""Results as JSON lines, and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.table import Table

from tf_host.bench.reply import Reply
from tf_host.bench.summary import CellSummary
from tf_host.bench.windows import Window

__all__ = ["cell_record", "table", "window_record"]


def window_record(window: Window) -> dict[str, Any]:
    """One window as a JSON object."""
    return {
        "kind": "window",
        "label": window.label,
        "temperature": window.cell.temperature,
        "streams": window.cell.streams,
        "window": window.window,
        "rep": window.rep,
        "tokens_per_s": _rounded(window.rate),
        "wall_s": round(window.seconds, 4),
        "alone": window.alone,
        "serial": window.serial,
        "requests": [
            {"prompt": use.prompt.id, "prompt_kind": use.prompt.kind, "number": use.number, "seed": use.seed}
            | _reply(reply)
            for use, reply in zip(window.uses, window.replies, strict=True)
        ],
    }


def cell_record(summary: CellSummary) -> dict[str, Any]:
    """One cell as a JSON object; comparisons only where there were any."""
    record: dict[str, Any] = {
        "kind": "cell",
        "label": summary.label,
        "temperature": summary.cell.temperature,
        "streams": summary.cell.streams,
        "windows": summary.windows,
        "failed": summary.failed,
        "tokens_per_s": _rounded(summary.rate),
        "tokens_per_s_each": [_rounded(rate) for rate in summary.rates],
        "request_wall_s": _rounded(summary.wall),
        "tokens_a_round": _rounded(summary.tokens_a_round),
        "sources": {
            source: {"drafted": drafted, "kept": summary.kept[source]} for source, drafted in summary.drafted.items()
        },
    }
    for name, (equal, of) in (("alone", summary.alone), ("serial", summary.serial), ("same", summary.same)):
        if of:
            record[name] = {"equal": equal, "of": of}
    if summary.ratios:
        record["ratio"] = _rounded(median(summary.ratios))
        record["ratios"] = [_rounded(ratio) for ratio in summary.ratios]
        record["behind"] = summary.behind
    if summary.time_ratios:
        record["wall_ratio"] = _rounded(median(summary.time_ratios))
    return record


def table(summaries: Sequence[CellSummary]) -> Table:
    """All cells as a table: rates and wall times are medians, with the least and the most beside the rate."""
    compared = any(summary.ratios for summary in summaries)
    grid = Table(title="tokens a second and seconds a request: medians", title_justify="left")
    for heading in ("temperature", "streams", "server"):
        grid.add_column(heading)
    for heading in ("windows", "tok/s", "least - most", "wall s", "tok a round", "drafts kept"):
        grid.add_column(heading, justify="right")
    grid.add_column("equal")
    if compared:
        grid.add_column("ratio, behind", justify="right")
    for summary in summaries:
        span = f"{min(summary.rates):.1f} - {max(summary.rates):.1f}" if summary.rates else "-"
        row = [
            f"{summary.cell.temperature:g}",
            str(summary.cell.streams),
            summary.label,
            str(summary.windows) + (f" ({summary.failed} failed)" if summary.failed else ""),
            _shown(summary.rate, 1),
            span,
            _shown(summary.wall, 2),
            _shown(summary.tokens_a_round, 2),
            _kept(summary),
            _equal(summary),
        ]
        if compared:
            ratios = summary.ratios
            row.append(f"{median(ratios):.2f}, {summary.behind} of {len(ratios)}" if ratios else "")
        grid.add_row(*row)
    return grid


def _reply(reply: Reply) -> dict[str, Any]:
    record: dict[str, Any] = {
        "tokens": reply.tokens,
        "first_s": _rounded(None if reply.first is None else reply.first - reply.started),
        "wall_s": _rounded(reply.seconds),
        "finish": reply.finish,
    }
    if reply.problem is not None:
        record["problem"] = reply.problem
    for name in ("rounds", "drafted", "accepted", "sources", "token_sha"):
        if name in reply.tf:
            record[name] = reply.tf[name]
    return record


def _kept(summary: CellSummary) -> str:
    shares = (f"{source} {summary.kept[source]}/{drafted}" for source, drafted in sorted(summary.drafted.items()))
    return ", ".join(shares) or "-"


def _equal(summary: CellSummary) -> str:
    tallies = (("alone", summary.alone), ("serial", summary.serial), ("other", summary.same))
    return ", ".join(f"{name} {equal}/{of}" for name, (equal, of) in tallies if of) or "-"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

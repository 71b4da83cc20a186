"""The page's section on where a round's milliseconds go, and on fixed depths in one process."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from benchmarks.on_cpu.results import Record, Stage


def parts(stage: Stage) -> Iterable[str]:
    """Tables of ``round_parts``."""
    yield "## Where a round goes"
    yield ""
    yield "One stream at 300 tokens, in the server's process, milliseconds, medians; a round is the forward with its"
    yield "greedy draw and its read-back."
    yield ""
    rounds = {r["rows"]: r["total_ms"] for r in _of(stage, "round")}
    yield "| rows of a round | " + " | ".join(map(str, rounds)) + " |"
    yield "| --- |" + " ---: |" * len(rounds)
    yield "| ms | " + " | ".join(f"{ms:.1f}" for ms in rounds.values()) + " |"
    yield ""
    yield from _list(stage)
    yield ""
    yield from _depths(stage)


def _of(stage: Stage, kind: str) -> list[Record]:
    return [record for record in stage.others if record["kind"] == kind]


def _list(stage: Stage) -> Iterable[str]:
    for record in _of(stage, "drafting"):
        steps = record["steps"]
        yield f"- {steps} chained step{'s' * (steps > 1)} of the drafter: {record['ms']['median']:.1f} ms"
    for record in _of(stage, "draw"):
        yield (
            f"- one row's draw at 0.7: {record['fresh_ms']:.2f} ms, {record['shared_ms']:.2f} with the noise that the "
            "drafter drew by"
        )
    for record in _of(stage, "outside"):
        outside = record["round_ms"] - record["inside_ms"]
        yield f"- the host after it (text, delivery): {outside:.2f} ms of a plain round"


def _depths(stage: Stage) -> Iterable[str]:
    """Tokens a second over the wall time of all prompts, and the median of decoding alone."""
    records = _of(stage, "oracle")
    temperatures = sorted({r["temperature"] for r in records})
    ways = list(dict.fromkeys(r["way"] for r in records))
    if not ways:
        return
    ways = sorted(ways, key=lambda way: int(way.removeprefix("depth ")) if way != "priced" else 99)
    yield "Fixed depths and pricing, one stream, whole requests: tokens a second over all prompts, and the median of"
    yield "decoding alone."
    yield ""
    yield "| depth | " + " | ".join("greedy" if t == 0 else f"at {t:g}" for t in temperatures) + " | equal |"
    yield "| --- |" + " ---: |" * (len(temperatures) + 1)
    for way in ways:
        cells, equal = [], []
        for temperature in temperatures:
            mine = [r for r in records if r["way"] == way and r["temperature"] == temperature]
            if not mine:
                cells.append("-")
                continue
            whole = sum(r["tokens"] for r in mine) / sum(r["seconds"] for r in mine)
            decoding = median((r["tokens"] - 1) / r["decode_s"] for r in mine if r["decode_s"])
            cells.append(f"{whole:.1f} ({decoding:.1f})")
            equal += [r["equal"] for r in mine]
        yield f"| {way.removeprefix('depth ')} | " + " | ".join(cells) + f" | {sum(equal)} of {len(equal)} |"

"""Tables of a GPU bench, from its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.on_gpu.results import Record
from tf_host.bench.summary import percentile


def tables(records: Sequence[Record]) -> str:
    """Everything that was measured, as Markdown."""
    sections = (_machine, _started, _bands, _rounds, _spread, _oracle, _served, _stock, _against, _checks, _trouble)
    lines: list[str] = []
    for section in sections:
        found = list(section(records))
        if found:
            lines += [*found, ""]
    return "\n".join(lines).rstrip() + "\n"


def _machine(records: Sequence[Record]) -> Iterable[str]:
    for record in _of(records, "machine")[-1:]:
        yield f"{record['date']}: {record['gpu']}; " + ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    for record in _of(records, "ceilings")[-1:]:
        yield f"copy {record['copy_tb_s']} TB/s, bf16 product {record['matmul_tflops']} TFLOP/s"


def _started(records: Sequence[Record]) -> Iterable[str]:
    rows = [
        (r["stage"], r["seconds"], ", ".join(f"{k} {v}" for k, v in r.get("phases", {}).items()))
        for r in _of(records, "started")
    ]
    yield from _table("Start-up", ("stage", "seconds", "phases"), rows)


def _bands(records: Sequence[Record]) -> Iterable[str]:
    for record in _of(records, "verdict"):
        sizes = f"{record['memory_gib']} GiB, peak {record['peak_gib']}"
        title = f"{record['stage']}: {record['said']}, widths {record['widths']}, {sizes}"
        yield from _table(title, ("operation", "agree", "outputs"), record["table"])


def _rounds(records: Sequence[Record]) -> Iterable[str]:
    names = ("build_ms", "draw_ms", "run_ms", "read_ms", "total_ms", "worst_ms")
    rows = [(r["stage"], r["at"], r["rows"], *(r[name] for name in names)) for r in _of(records, "round")]
    rows += [(r["stage"], r["at"], "queued", "", "", "", "", r["ms"], "") for r in _of(records, "queued")]
    yield from _table("A round's milliseconds", ("stage", "at", "rows", *names), rows)
    rows = [(r["stage"], r["steps"], *r["ms"].values()) for r in _of(records, "drafting")]
    yield from _table("Drafting, milliseconds a call", ("stage", "tokens", "median", "worst", "first"), rows)


_SAME = {True: "yes", False: "NO", None: "-"}


def _spread(records: Sequence[Record]) -> Iterable[str]:
    rows = [
        (
            r["stage"],
            r["at"],
            r["way"],
            r["tokens"],
            _SAME[r.get("same")],
            r["prompt_s"],
            f"{(r['tokens'] - 1) / r['decode_s']:.1f}" if r["decode_s"] else "-",
            f"{median(r['rounds_ms']):.2f}",
            ", ".join(f"{bucket}: {worst}" for bucket, worst in r["worst_over_median"].items()),
        )
        for r in _of(records, "spread")
        if r["rounds_ms"]
    ]
    head = (
        "stage",
        "prompt",
        "way",
        "tokens",
        "equal",
        "prompt s",
        "tok/s",
        "median ms",
        "worst over median, by bucket",
    )
    yield from _table("Round by round", head, rows)


def _oracle(records: Sequence[Record]) -> Iterable[str]:
    cells: dict[tuple[str, float, str], list[Record]] = defaultdict(list)
    for record in _of(records, "oracle"):
        cells[record["stage"], record["temperature"], record["way"]].append(record)
    rows = []
    for (stage, temperature, way), found in cells.items():
        tokens, seconds = sum(r["tokens"] for r in found), sum(r["seconds"] for r in found)
        rates = [(r["tokens"] - 1) / r["decode_s"] for r in found if r["decode_s"]]
        rows.append(
            (
                stage,
                temperature,
                way,
                len(found),
                f"{tokens / seconds:.1f}",
                f"{median(rates):.1f}" if rates else "-",
                f"{tokens / max(1, sum(r['rounds'] for r in found)):.2f}",
                f"{sum(r['equal'] for r in found)} of {len(found)}",
            )
        )
    head = ("stage", "T", "way", "prompts", "tok/s whole", "tok/s decode, median", "tok a round", "equal")
    yield from _table("Fixed depths and pricing, in one process", head, rows)


def _served(records: Sequence[Record]) -> Iterable[str]:
    rows = []
    for record in _of(records, "cell"):
        compared = {key: record[key] for key in ("same", "alone", "serial") if key in record}
        sources = record["sources"].items()
        rows.append(
            (
                record["stage"],
                record["label"],
                record["temperature"],
                record["streams"],
                f"{record['windows']} ({record['failed']} failed)" if record["failed"] else record["windows"],
                record["tokens_per_s"],
                record["tokens_a_round"],
                ", ".join(f"{name} {s['kept']}/{s['drafted']}" for name, s in sources),
                ", ".join(f"{key} {value['equal']}/{value['of']}" for key, value in compared.items()),
                record.get("ratio", ""),
                record.get("wall_ratio", ""),
            )
        )
    head = (
        "stage",
        "server",
        "T",
        "streams",
        "windows",
        "tok/s",
        "tok a round",
        "kept",
        "equal",
        "ratio",
        "wall ratio",
    )
    yield from _table("Served over HTTP, medians", head, rows)


def _stock(records: Sequence[Record]) -> Iterable[str]:
    ways: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in _of(records, "generated"):
        ways[record["stage"], record["way"]].append(record)
    plain = {(r["stage"], r["prompt"]): r["ids"] for r in _of(records, "generated") if r["way"] == "plain"}
    rows = []
    for (stage, way), found in ways.items():
        rates = [r["tokens_per_s"] for r in found if r["tokens_per_s"]]
        same = sum(r["ids"] == plain.get((stage, r["prompt"])) for r in found)
        said = [r["said_tokens_per_s"] for r in found if r["said_tokens_per_s"]]
        rows.append((stage, way, len(found), _median(rates), _median(said), f"{same} of {len(found)}"))
    head = ("stage", "way", "prompts", "tok/s", "as it says", "equal to its plain")
    yield from _table("mlx-lm's own stream_generate", head, rows)


def _against(records: Sequence[Record]) -> Iterable[str]:
    """The lines that the bench was made for: over mlx-lm's plain, and window by window over no drafter."""
    rows = []
    for target in ("33B", "8B"):
        of_stock = [r for r in _of(records, "generated") if (r["stage"], r["way"]) == (f"stock {target}", "plain")]
        stock = [r["tokens_per_s"] for r in of_stock if r["tokens_per_s"]]
        windows = [r for r in _of(records, "window") if r.get("target") == target and r["tokens_per_s"]]
        for drafter in dict.fromkeys(r["drafter"] for r in windows):
            for temperature in (0.0, 0.7):
                for streams in (1, 2, 4):
                    rows += _cell(target, drafter, temperature, streams, windows, stock)
    head = ("pair", "T", "streams", "drafted", "plain", "no drafter", "drafted / no drafter", "A/A 5%", "below it")
    yield from _table("Against no drafter and mlx-lm", (*head, "ids equal", "plain / mlx-lm", "drafted / mlx-lm"), rows)


def _cell(
    target: str, drafter: str, temperature: float, streams: int, windows: Sequence[Record], stock: Sequence[float]
) -> list[tuple[Any, ...]]:
    by_label: dict[str, dict[tuple[int, int], Record]] = defaultdict(dict)
    for r in windows:
        if (r["drafter"], r["temperature"], r["streams"]) == (drafter, temperature, streams):
            by_label[r["label"]][r["rep"], r["window"]] = r
    drafted, plain, bare = (by_label[label] for label in ("drafter", "plain", "no drafter"))
    again = by_label["no drafter again"]
    if not drafted:
        return []
    ratios = [r["tokens_per_s"] / bare[key]["tokens_per_s"] for key, r in drafted.items() if key in bare]
    even = [r["tokens_per_s"] / bare[key]["tokens_per_s"] for key, r in again.items() if key in bare]
    floor = percentile(even, 0.05) if even else None
    equal = [
        one.get("token_sha") == two.get("token_sha")
        for others in (plain, bare, again)
        for key, r in drafted.items()
        if key in others
        for one, two in zip(r["requests"], others[key]["requests"], strict=True)
    ]
    rate, own, over = (_rate(one) for one in (drafted, plain, bare))
    mlx = median(stock) if stock and streams == 1 else None
    return [
        (
            f"{target} + {drafter}",
            temperature,
            streams,
            rate,
            own,
            over,
            _median(ratios, 3),
            "-" if floor is None else f"{floor:.3f}",
            "-" if floor is None else f"{sum(ratio < floor for ratio in ratios)} of {len(ratios)}",
            f"{sum(equal)} of {len(equal)}",
            f"{float(own) / mlx:.2f}" if mlx and own != "-" else "-",
            f"{float(rate) / mlx:.2f}" if mlx else "-",
        )
    ]


def _checks(records: Sequence[Record]) -> Iterable[str]:
    for record in _of(records, "check"):
        yield f"{record['stage']}: tf-llama-run --check ended with {record['rc']} after {record['seconds']} s"
        yield "```"
        yield record["table"].rstrip()
        yield "```"


def _trouble(records: Sequence[Record]) -> Iterable[str]:
    for record in records:
        if record["kind"] in ("stopped", "failed", "cut"):
            said = (
                record.get("error") or record.get("reason") or f"rc {record.get('rc')}: {record.get('tail', '')[-300:]}"
            )
            yield f"- {record['stage']} {record['kind']}: {said}"


def _of(records: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in records if record["kind"] == kind]


def _rate(windows: dict[tuple[int, int], Record]) -> str:
    return _median([r["tokens_per_s"] for r in windows.values()])


def _median(values: Sequence[float], digits: int = 1) -> str:
    return f"{median(values):.{digits}f}" if values else "-"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterable[str]:
    if not rows:
        return
    yield f"### {title}"
    yield ""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"
    yield ""

"""``docs/benchmarks.md`` from the stages' results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.on_cpu import machine
from benchmarks.on_cpu.page_parts import parts
from benchmarks.on_cpu.results import CELLS, Stage, spread
from benchmarks.on_cpu.stages import AGAIN, DRAFTER, FORCED_DEPTH, NONE, PLAIN, SLOW_STEP_S

Lines = Iterable[str]


def write(results: Mapping[str, Stage], picture: Path | None) -> str:
    """The page, with a section for each stage that has results."""
    lines = ["# Benchmarks", "", *_head(results), ""]
    if picture is not None:
        lines += [f"![Tokens a second by prompt kind]({picture.name})", ""]
    for name, section in SECTIONS.items():
        if name in results and (results[name].windows or results[name].others):
            lines += [*section(results[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _head(results: Mapping[str, Stage]) -> Lines:
    dates = sorted({stage.began.split(" ")[0] for stage in results.values() if stage.began})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else "never"
    yield f"Measured on {when} by `make bench` (`benchmarks/cpu.py`), on the demo pair, over the prompts of"
    yield "`benchmarks/prompts.jsonl`, each use of one a text of its own. Replies stop by themselves."
    yield ""
    yield from (f"- {line}" for line in machine.describe())
    yield ""
    yield "Window *k* sends prompt *k* alone, then *k* and *k* + 1 together. One stream is tokens a second after the"
    yield "first token, two are both replies' tokens over the pair's wall time; numbers are medians over windows."
    yield "Servers alternate window by window, nothing is kept between requests, seeds are fixed. *Without* the"
    yield "drafter, copies are still drafted. Stages run one after another: compare within a table."


def _pair(stage: Stage) -> Lines:
    yield "## With the drafter and without it"
    yield ""
    rows = []
    for temperature, streams in CELLS:
        ratios = stage.ratios(DRAFTER, NONE, temperature, streams)
        if not ratios:
            continue
        even = stage.ratios(AGAIN, NONE, temperature, streams)
        walls = stage.ratios(DRAFTER, NONE, temperature, streams, wall=True)
        floor = spread(even)[0] if even else 0.0
        rows.append(
            (
                _cell(temperature, streams),
                _number(stage.rate(DRAFTER, temperature, streams)),
                _number(stage.rate(NONE, temperature, streams)),
                f"{median(ratios):.2f}",
                f"{median(walls):.2f}",
                f"{min(ratios):.2f}",
                f"{floor:.2f}",
                f"{sum(ratio < floor for ratio in ratios)} of {len(ratios)}",
                _number(stage.tokens_a_round(DRAFTER, temperature, streams), 2),
                _kept(stage.kept(DRAFTER, temperature, streams)),
            )
        )
    rates = ("tokens a second", "drafter", "without", "ratio", "request ratio", "least ratio")
    yield from _table((*rates, "A/A 5%", "below it", "tok a round", "kept"), rows)
    yield ""
    same, of = stage.equal("same", NONE)
    yield f"Replies equal with the drafter and without it: {same} of {of}; failed or cut off: {stage.failed()}."
    yield "*Request ratio* is the wall time of whole requests, prompts included. *A/A 5%* is the 5th percentile of the"
    yield "ratios of two equal servers without a drafter, *below it* the windows in which the drafter fell under that."


def _plain(stage: Stage) -> Lines:
    yield "## Against no drafts at all"
    yield ""
    drafted, plain = stage.by_kind(DRAFTER), stage.by_kind(PLAIN)
    rows = [
        (kind, str(len(rates)), _number(median(rates)), _number(median(plain[kind])), _ratio(rates, plain[kind]))
        for kind, rates in sorted(drafted.items())
        if kind in plain
    ]
    overall = stage.ratios(DRAFTER, PLAIN)
    windows = str(len(overall))
    rows.append(("all", windows, _number(stage.rate(DRAFTER)), _number(stage.rate(PLAIN)), f"{median(overall):.2f}"))
    yield from _table(("greedy, one stream", "windows", "drafter and copies", "no drafts", "ratio"), rows)
    yield ""
    same, of = stage.equal("same", PLAIN)
    yield f"Replies equal with drafts and without: {same} of {of}."


def _equal(stage: Stage) -> Lines:
    alone, serial = stage.equal("alone", DRAFTER), stage.equal("serial", DRAFTER)
    yield "## Equality on one server"
    yield ""
    yield f"- a reply beside another, and alone: {alone[0]} of {alone[1]} equal, token for token"
    yield f'- a reply, and the same with `"draft": false`: {serial[0]} of {serial[1]} equal, token for token'


def _oracle(stage: Stage) -> Lines:
    yield "## Pricing against fixed depths"
    yield ""
    depths = [label for label in stage.labels if label != DRAFTER]
    cells = [cell for cell in CELLS if stage.rate(DRAFTER, *cell)]
    rows = [(label, *(_number(stage.rate(label, *cell), 2) for cell in cells)) for label in depths]
    best = [max((stage.rate(label, *cell) or 0.0) for label in depths) for cell in cells]
    priced = [stage.rate(DRAFTER, *cell) or 0.0 for cell in cells]
    rows.append(("**priced**", *(f"**{rate:.2f}**" for rate in priced)))
    rows.append(("priced over the best", *(f"{p / b:.2f}" if b else "-" for p, b in zip(priced, best, strict=True))))
    yield from _table(("tokens a second", *(_cell(*cell) for cell in cells)), rows)


def _mlx(stage: Stage) -> Lines:
    yield "## Beside `mlx_lm.server`, greedy, one stream"
    yield ""
    ours = stage.rate(PLAIN)
    rows = []
    for label in stage.labels:
        ratios = stage.ratios(PLAIN, label)
        same, of = stage.equal("same", label)
        rate = stage.rate(label)
        over = f"{median(ratios):.2f}" if ratios and label != PLAIN else ""
        rows.append((NAMES.get(label, label), _number(rate, 2), over, "" if label == PLAIN else f"{same} of {of}"))
    headings = ("server, same checkpoint folder", "tok/s", "plain tf-serve over it", "same text as plain tf-serve")
    yield from _table(headings, rows)
    if ours is None:
        yield "Plain tf-serve has no whole window here."


def _bad(stage: Stage) -> Lines:
    yield "## Drafters that do not pay"
    yield ""
    rows = [
        (
            name,
            *(
                f"{median(ratios):.3f}" if (ratios := stage.ratios(label, NONE, temperature)) else "-"
                for temperature in (0.0, 0.7)
            ),
            _kept(stage.kept(label)),
        )
        for label, name in (
            ("bad drafter", "random weights"),
            ("slow drafter", f"asleep {SLOW_STEP_S:g} s a step"),
            (AGAIN, "none, a second server"),
        )
    ]
    yield from _table(("tokens a second over those without it", "greedy", "at 0.7", "kept"), rows)


def _self(stage: Stage) -> Lines:
    yield "## The target as its own drafter"
    yield ""
    yield f"Depth forced to {FORCED_DEPTH}, greedy: {_kept(stage.kept(stage.labels[0]))} drafts kept."


def _cold(stage: Stage) -> Lines:
    with_it, without = ([w["requests"][0]["wall_s"] for w in stage.of(label)] for label in (DRAFTER, NONE))
    yield "## The first request of a fresh server"
    yield ""
    rows = [
        (label, str(len(walls)), _number(median(walls), 2), _number(min(walls), 2), _number(max(walls), 2))
        for label, walls in ((DRAFTER, with_it), (NONE, without))
    ]
    yield from _table(("whole request, greedy", "starts", "median s", "least s", "most s"), rows)


SECTIONS: dict[str, Callable[[Stage], Lines]] = {
    "pair": _pair,
    "plain": _plain,
    "equal": _equal,
    "oracle": _oracle,
    "mlx": _mlx,
    "bad": _bad,
    "self": _self,
    "cold": _cold,
    "parts": parts,
}

NAMES = {
    PLAIN: "`tf-serve --no-drafts`",
    "mlx-lm": "`mlx_lm.server`, as it comes",
    "mlx-lm draft": "`mlx_lm.server --draft-model`, as it comes",
    "mlx-lm same": "`mlx_lm.server`, the same MKL and float32",
    "mlx-lm same draft": "`mlx_lm.server --draft-model`, the same MKL and float32",
}


def _cell(temperature: float, streams: int) -> str:
    drawn = "greedy" if temperature == 0 else f"at {temperature:g}"
    return f"{drawn}, alone" if streams == 1 else f"{drawn}, {streams} streams"


def _ratio(rates: Sequence[float], others: Sequence[float]) -> str:
    return f"{median(rates) / median(others):.2f}"


def _kept(kept: Mapping[str, str]) -> str:
    return ", ".join(f"{source} {count}" for source, count in kept.items()) or "-"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    yield "| " + " | ".join(headings) + " |"
    yield "| --- |" + " ---: |" * (len(headings) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"

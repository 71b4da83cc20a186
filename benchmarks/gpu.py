"""The bench on a GPU: shape-faithful pairs through the real ``tf-serve``, beside mlx-lm on the same weights.

    python -m benchmarks.gpu                              every stage, for as long as --budget-s allows
    python -m benchmarks.gpu facts demo inside-33B        these stages
    python -m benchmarks.gpu report                       the tables again from the results that are there

The pairs have the cost of a 33B, an 8B, a 3B, a 1B and the 12 M demo drafter, and the demo pair's text (``pairs``). A
stage is a process of its own with a time limit: one that fails or runs out of time is recorded, and the next begins.
Results stay in ``--work``; a stage that is done there is not run again without ``--again``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.on_gpu.results import UNTIL, Sink, load
from benchmarks.on_gpu.tables import tables

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Stage:
    """One process of the bench.

    Attributes:
        module: run with the results' file and ``arguments``.
        arguments: ``{work}`` and ``{logs}`` stand for folders.
        seconds: how long it may take.
    """

    module: str
    arguments: tuple[str, ...]
    seconds: float


def _serve(target: str, drafter: str, part: str, seconds: float, *more: str) -> Stage:
    return Stage("serving", ("{work}", target, drafter, "--part", part, *more), seconds)


STAGES = {
    "facts": Stage("facts", (), 90),
    "demo": Stage("demo", ("{logs}",), 240),
    "forward-33B": Stage("forwards", ("{work}", "33B"), 90),
    "inside-33B": Stage("inside", ("{work}", "33B", "12M"), 280),
    "serve-33B-12M": _serve("33B", "12M", "drafted", 330),
    "stock-33B": Stage("stock", ("{work}", "33B", "12M", "3B"), 170),
    "bare-33B": _serve("33B", "12M", "undrafted", 240),
    "check-33B": Stage("check", ("{work}", "33B"), 200),
    "serve-33B-3B": _serve("33B", "3B", "drafted", 130, "--short"),
    "serve-33B-1B": _serve("33B", "1B", "drafted", 130, "--short"),
    "inside-8B": Stage("inside", ("{work}", "8B", "12M", "--prompts", "3"), 150),
    "serve-8B-12M": _serve("8B", "12M", "drafted", 100, "--short"),
    "serve-8B-1B": _serve("8B", "1B", "drafted", 100, "--short"),
    "serve-8B-3B": _serve("8B", "3B", "drafted", 100, "--short"),
    "stock-8B": Stage("stock", ("{work}", "8B", "12M", "--prompts", "4"), 80),
    "check-8B": Stage("check", ("{work}", "8B"), 120),
}
"""In the order that they are worth having."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run stages, then write and print the tables; 1 where a stage failed."""
    options = _parse(argv)
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    results, until = work / "results.jsonl", time.time() + options.budget_s
    failed = False
    for name in options.stages or STAGES:
        if name == "report":
            continue
        if not options.again and any(r["stage"] == name and r["kind"] == "done" for r in load(results)):
            print(f"== {name}: done already", flush=True)
            continue
        room = until - time.time()
        if room < 30:
            print(f"== {name}: no time left", flush=True)
            continue
        failed |= not _run(name, STAGES[name], results, work, min(room, STAGES[name].seconds * options.patience))
    text = tables(load(results))
    out: Path = options.out or work
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(text, encoding="utf-8")
    if out != work:
        (out / "results.jsonl").write_bytes(results.read_bytes() if results.exists() else b"")
        (out / "log.txt").write_text(_logs(work), encoding="utf-8")
    print(text)
    return 1 if failed else 0


def _run(name: str, stage: Stage, results: Path, work: Path, seconds: float) -> bool:
    """Run one stage within its time; whatever it started ends with it."""
    sink = Sink(results, name)
    logs = work / "logs"
    logs.mkdir(exist_ok=True)
    places = {"work": str(work), "logs": str(logs)}
    arguments = [argument.format(**places) for argument in stage.arguments]
    command = [sys.executable, "-m", f"benchmarks.on_gpu.{stage.module}", str(results), *arguments]
    began = time.time()
    print(f"== {name}, {seconds:.0f} s at most", flush=True)
    with (logs / f"{name}.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {UNTIL: str(began + seconds - 8)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            sink.write("cut", reason=f"stopped after {seconds:.0f} s")
        finally:
            _end(process)
    took = round(time.time() - began, 1)
    if process.returncode == 0:
        sink.write("done", seconds=took)
        return True
    tail = (logs / f"{name}.txt").read_text(errors="replace")[-1_500:]
    sink.write("stopped", rc=process.returncode, seconds=took, tail=tail)
    print(tail, flush=True)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a stage's whole process group, and give it the time to stop its servers."""
    for sign, wait_s in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
    process.poll()


def _logs(work: Path) -> str:
    """The ends of all logs in one text."""
    parts = []
    for path in sorted((work / "logs").glob("*")):
        parts.append(f"######## {path.name}\n{path.read_text(errors='replace')[-120_000:]}\n")
    return "\n".join(parts)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("stages", nargs="*", choices=[*STAGES, "report"], metavar="STAGE", help=f"of {', '.join(STAGES)}, report")
    add("--work", type=Path, default=ROOT / "build" / "gpu", metavar="DIR", help="where results and pairs stay")
    add("--out", type=Path, metavar="DIR", help="where copies of results, table and logs go (default --work)")
    add("--budget-s", type=float, default=86_400, metavar="S", help="seconds for all stages together")
    add("--patience", type=float, default=1.0, metavar="X", help="times each stage's own limit")
    add("--again", action="store_true", help="run stages that are done")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""The bench on a CPU: starts servers in turn, runs windows on them, writes ``docs/benchmarks.md`` and its plot.

    .venv/bin/python -m benchmarks.cpu                      everything: some hours
    .venv/bin/python -m benchmarks.cpu pair mlx             these stages; the others keep their last results
    .venv/bin/python -m benchmarks.cpu pair --windows 1     a look
    .venv/bin/python -m benchmarks.cpu report               the page again from the results that are there

Stages: pair, plain, equal, oracle, mlx, bad, self, cold, parts. Results stay in ``build/bench``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.on_cpu import page, plot
from benchmarks.on_cpu import results as read
from benchmarks.on_cpu.stages import STAGES, Bench
from benchmarks.servers import end_with_what_was_started

ROOT = Path(__file__).resolve().parents[1]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages named, or all of them, and write the page."""
    options = _parse(argv)
    end_with_what_was_started()
    from tf_demo import pair

    def say(doing: str, done: float) -> None:
        print(f"{doing} {done:.0%}", file=sys.stderr)

    bench = Bench(
        results=options.results,
        target=pair.target(say),
        drafter=pair.drafter(say),
        windows=options.windows,
        few=min(options.windows, options.few),
        tokens=options.tokens,
        depths=options.depths,
        starts=options.starts,
    )
    for stage in options.stages or STAGES:
        if stage != "report":
            print(f"== {stage}", file=sys.stderr)
            STAGES[stage](bench)
    results = read.load(bench.results)
    options.page.parent.mkdir(parents=True, exist_ok=True)
    picture = options.page.with_suffix(".png") if plot.draw(results, options.page.with_suffix(".png")) else None
    options.page.write_text(page.write(results, picture), encoding="utf-8")
    print(options.page, file=sys.stderr)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("stages", nargs="*", choices=[*STAGES, "report"], metavar="STAGE", help="stages to run (default all)")
    add("--windows", type=int, default=24, help="windows of a stage (default %(default)s)")
    add("--few", type=int, default=6, help="windows of the longest stages (default %(default)s)")
    add("--tokens", type=int, default=128, help="most reply tokens (default %(default)s)")
    add("--depths", type=_depths, default=tuple(range(16)), help="fixed depths of the oracle (default 0,1,...,15)")
    add("--starts", type=int, default=10, help="cold starts each way (default %(default)s)")
    add("--results", type=Path, default=ROOT / "build" / "bench", help="folder of the results")
    add("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", help="the page to write")
    return parser.parse_args(argv)


def _depths(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())

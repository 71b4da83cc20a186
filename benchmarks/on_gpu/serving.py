"""One pair served by ``tf-serve``: with its drafter and plain in turn, then without a drafter, twice in turn."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.laid import PLUGINS
from benchmarks.on_gpu.arguments import arguments
from benchmarks.on_gpu.pairs_here import environment, folders
from benchmarks.on_gpu.results import Sink, left
from benchmarks.on_gpu.windows import collect, prompts
from benchmarks.servers import Server, end_with_what_was_started, running, tf_serve
from tf_host.bench.windows import Plan


def main(argv: Sequence[str] | None = None) -> int:
    """Serve and record; ``--part`` chooses what."""
    parser = arguments(__doc__, "target", "drafter")
    add = parser.add_argument
    add("--part", choices=("drafted", "undrafted"), required=True)
    add("--windows", type=int, default=8)
    add("--tokens", type=int, default=128)
    add("--short", action="store_true", help="one stream, greedy and 0.7, three windows")
    options = parser.parse_args(argv)
    end_with_what_was_started()
    made = folders(options.work)
    sink = Sink(options.results, f"serve {options.target}+{options.drafter} {options.part}")
    flags = [str(made[options.target]), "--use-plugins", ",".join(PLUGINS), "--memory-gib", "125", "--parallel", "4"]
    if options.part == "drafted":
        flags.append(f"--drafter={made[options.drafter]}")
        server = tf_serve("drafter", *flags)
        ways = [server, replace(server, label="plain")]
    else:
        server = tf_serve("no drafter", *flags)
        ways = [server, replace(server, label="no drafter again")]
    server = replace(server, env=environment(options.work))
    began = time.time()
    with running([server], options.work / "logs") as urls:
        sink.write("started", seconds=round(time.time() - began, 1))
        for plan, servers in _plans(options, ways):
            if left() < 15:
                sink.write("cut", reason="the stage's time is up")
                break
            pair = {"target": options.target, "drafter": options.drafter}
            asyncio.run(collect(sink, plan, servers, urls * len(servers), **pair))
    return 0


def _plans(options: argparse.Namespace, ways: Sequence[Server]) -> list[tuple[Plan, Sequence[Server]]]:
    both, windows = (0.0, 0.7), options.windows
    plan = Plan(prompts(), (1,), both, windows=windows, tokens=options.tokens)
    if options.short:
        return [(replace(plan, windows=min(3, windows)), ways)]
    # Two equal servers are only told apart where one stream decodes; together, one of them is enough.
    together = ways if options.part == "drafted" else ways[:1]
    return [
        (plan, ways),
        (replace(plan, levels=(2,), windows=max(1, windows // 2)), together),
        (replace(plan, levels=(4,), windows=max(1, windows // 4)), together),
    ]


if __name__ == "__main__":
    sys.exit(main())

"""One pair in one process: start-up by phases, the bands, where a round's time goes, fixed depths, round by round."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inprocess.replies import oracle, spread
from benchmarks.inprocess.rounds import rounds
from benchmarks.laid import PLUGINS
from benchmarks.on_gpu.arguments import arguments
from benchmarks.on_gpu.pairs_here import environment, folders
from benchmarks.on_gpu.results import Sink, left
from tf_host.cli.leaving import leave

DEPTHS = (0, 2, 4, 6, 8, 12, 15)
BESIDE = {3: (3, 2, 1), 5: (3, 3, 2, 1, 1), 8: (3, 2, 1, 1)}
"""Depths with alternatives, and how many in each place."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that the time allows, the most wanted first."""
    parser = arguments(__doc__, "target", "drafter")
    add = parser.add_argument
    add("--parts", default="rounds,spread,oracle")
    add("--tokens", type=int, default=96)
    add("--prompts", type=int, default=6)
    add("--depths", default=",".join(map(str, DEPTHS)), help="fixed depths of the oracle")
    options = parser.parse_args(argv)
    depths = [int(depth) for depth in options.depths.split(",")]
    made = folders(options.work)
    # Entry points are looked up on sys.path, so the plugin has to be there before anything is.
    sys.path[:0] = [environment(options.work)["PYTHONPATH"].split(os.pathsep)[0]]
    sink = Sink(options.results, f"inside {options.target}+{options.drafter}")
    composed = _compose(sink, made[options.target], made[options.drafter])
    parts: dict[str, Callable[[], None]] = {
        "rounds": lambda: rounds(sink, composed),
        "spread": lambda: spread(sink, composed, options.tokens),
        "oracle": lambda: oracle(sink, composed, options.tokens, options.prompts, depths, beside=BESIDE),
    }
    try:
        for name in options.parts.split(","):
            if left() < 20:
                sink.write("cut", reason=f"no time for {name}")
                continue
            try:
                composed.engine.call(parts[name])
            except Exception as error:
                sink.write("failed", part=name, error=f"{type(error).__name__}: {error}"[:2_000])
    finally:
        composed.close()
    return 0


def _compose(sink: Sink, target: Path, drafter: Path) -> Any:
    from tf_host.device import prepare
    from tf_host.plugins import Plugins
    from tf_host.settings import load

    flags = [str(target), "--family", "llama", f"--drafter={drafter}", "--use-plugins", ",".join(PLUGINS)]
    flags += ["--parallel", "4", "--prompt-cache-gib", "0", "--memory-gib", "125"]
    settings = load(flags).settings
    device = prepare(settings)

    from tf_host.start import compose  # imports MLX

    phases: dict[str, float] = {}
    began = since = time.perf_counter()
    phase = "before loading"

    def enter(following: str) -> None:
        nonlocal phase, since
        now = time.perf_counter()
        phases[phase] = round(phases.get(phase, 0.0) + now - since, 2)
        phase, since = following, now

    def progress(doing: str, done: float) -> None:
        following = "probing" if doing.startswith("probing") else doing
        if following != phase:
            enter(following)

    composed = compose(settings, device, Plugins.load(settings), progress)
    enter("ready")
    import mlx.core as mx

    sink.write("started", seconds=round(time.perf_counter() - began, 1), phases=phases)
    sink.write(
        "verdict",
        said=composed.verdict.describe(),
        widths=composed.plan.widths,
        tile=composed.plan.tile,
        rungs=composed.plan.rungs,
        table=[[row.name, row.agree, row.outputs] for row in composed.verdict.table],
        device=device.name,
        memory_gib=round(mx.get_active_memory() / (1 << 30), 1),
        peak_gib=round(mx.get_peak_memory() / (1 << 30), 1),
    )
    return composed


if __name__ == "__main__":
    sys.exit(leave(main()))

"""The demo pair in one process on a CPU: where a round's milliseconds go, and fixed depths beside pricing.

python -m benchmarks.round_parts RESULTS [--prompts 6] [--tokens 96]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.inprocess.replies import Watch, make_lanes, oracle, reply
from benchmarks.inprocess.rounds import drafting, ms, parts, read, text
from benchmarks.on_gpu.results import Sink
from tf_host.cli.leaving import leave
from tf_host.requests import Sampling

ROWS = (1, 2, 3, 4, 6, 8, 16)
DEPTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
PLACE = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("results", type=Path)
    add("--prompts", type=int, default=6)
    add("--tokens", type=int, default=96)
    options = parser.parse_args(argv)
    composed = _compose()
    options.results.write_text("", encoding="utf-8")
    sink = Sink(options.results, "parts")
    sink.write("stage", began=time.strftime("%Y-%m-%d %H:%M"))
    try:
        composed.engine.call(lambda: _parts(sink, composed))
        composed.engine.call(lambda: oracle(sink, composed, options.tokens, options.prompts, DEPTHS))
    finally:
        composed.close()
    return 0


def _compose() -> Any:
    from tf_host.device import prepare
    from tf_host.plugins import Plugins
    from tf_host.settings import load

    settings = load(["--family", "llama", "--drafter", "--prompt-cache-gib", "0"]).settings
    device = prepare(settings)
    from tf_host.start import compose  # imports MLX

    return compose(settings, device, Plugins.load(settings), lambda doing, done: None)


def _parts(sink: Sink, composed: Any) -> None:
    cache, ids = read(composed, PLACE)
    for rows in ROWS:
        sink.write("round", rows=rows, **parts(composed, cache, ids, rows))
    for steps in (1, 2, 4, 8):
        sink.write("drafting", steps=steps, ms=drafting(composed, steps))
    sink.write("draw", **_draws(composed, cache, ids))
    sink.write("outside", **_outside(composed))


def _draws(composed: Any, cache: Any, ids: list[int], times: int = 20) -> dict[str, float]:
    """Milliseconds of one row's draw at 0.7: with its noise to be made, and with the noise that a drafter drew by."""
    import mlx.core as mx

    from tf_host.sampling import Drawer
    from tf_plugins.types import Window

    logits = composed.model.verify([Window(cache, ids[-1:])])
    mx.eval(logits)
    drawer = Drawer(composed.text.vocab, composed.target.vocab)
    found: dict[str, list[float]] = {"fresh_ms": [], "shared_ms": []}
    sampling = Sampling(seed=1, temperature=0.7)
    for turn in range(times):
        for samples in found.values():  # the second time the noise is there
            began = time.perf_counter()
            mx.eval(drawer.draw(logits[0], sampling, 1_000 + turn).arrays())
            samples.append(time.perf_counter() - began)
    return {name: ms(statistics.median(samples)) for name, samples in found.items()}


def _outside(composed: Any) -> dict[str, float]:
    """Milliseconds of a plain round of a reply, and what of it is planning, forward, draw and read-back."""
    from tf_host.lanes import FixedDepths

    watch = Watch()
    done, _ = reply(composed, make_lanes(composed, FixedDepths(0), watch), text(composed, PLACE), 48)
    # Both are means, of the same rounds: decoding is timed from the first token on.
    inside = statistics.fmean(one.seconds for one in watch.rounds[1:])
    return {"round_ms": ms(done.decode_s / (done.rounds - 1)), "inside_ms": ms(inside)}


if __name__ == "__main__":
    sys.exit(leave(main()))

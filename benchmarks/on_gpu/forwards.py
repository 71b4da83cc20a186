"""Decode forwards of a shape with random weights, in one launch and operation by operation: time and bits."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.inprocess.rounds import ms
from benchmarks.on_gpu.arguments import arguments
from benchmarks.on_gpu.pairs_here import folders
from benchmarks.on_gpu.results import Sink
from tf_host.cli.leaving import leave

LENGTH, CAPACITY = 300, 512
SPANS = {"1 row": (1,), "4 rows": (4,), "9 rows": (9,), "16 rows": (16,), "4 streams of 4": (4, 4, 4, 4)}


def main(argv: Sequence[str] | None = None) -> int:
    """Time every forward of ``SPANS`` both ways and record it."""
    parser = arguments(__doc__, "target")
    add = parser.add_argument
    add("--layers", type=int, help="fewer than the shape has")
    options = parser.parse_args(argv)
    sink = Sink(options.results, f"forward {options.target}")
    rows, whole, layout = _model(folders(options.work)[options.target], options.layers)
    for name, counts in SPANS.items():
        bits = []
        for way, used in (("one launch", whole), ("by operations", None)):
            rows.whole = used
            bits.append(_bits(rows, layout, counts))
            times = _read_back(rows, layout, counts)
            sink.write("forward", what=name, way=way, queued_ms=_queued(rows, layout, counts), **times)
        sink.write("bits", what=name, equal=bits[0] == bits[1])
    return 0


def _model(folder: Path, layers: int | None) -> Any:
    """Rows of random weights in the folder's shape, its whole forward, and the caches' layout."""
    import mlx.core as mx
    from mlx_lm.models.rope_utils import initialize_rope

    from tf_llama.config import LlamaConfig
    from tf_llama.rows.cache import Layout
    from tf_llama.rows.cuda.form import CudaForm
    from tf_llama.rows.cuda.forward import WholeForward
    from tf_llama.rows.cuda.processor import processor
    from tf_llama.rows.forward import Rows
    from tf_llama.rows.weights import Weights

    config = LlamaConfig.parse(json.loads((folder / "config.json").read_text("utf-8")), folder / "config.json")
    config = replace(config, layers=layers or config.layers)
    heads, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim

    def random(*shape: int, about: float = 0.0) -> mx.array:
        made = mx.random.uniform(about - 0.03, about + 0.03, shape).astype(mx.bfloat16)
        mx.eval(made)
        mx.clear_cache()
        return made

    blocks = [
        {
            "attend_norm": random(config.hidden, about=1.0),
            "attend": (random(heads + 2 * keys, config.hidden).T,),
            "output": (random(config.hidden, heads).T,),
            "mlp_norm": random(config.hidden, about=1.0),
            "gate_up": (random(2 * config.mlp, config.hidden).T,),
            "down": (random(config.hidden, config.mlp).T,),
        }
        for _ in range(config.layers)
    ]
    table, head = random(config.vocab, config.hidden), random(config.vocab, config.hidden).T
    weights = Weights(table, blocks, random(config.hidden, about=1.0), head)
    found = processor()
    if found is None:
        raise SystemExit("no CUDA device answers")
    rope = initialize_rope(config.head_dim, config.rope.theta, False, None, config.context)
    form = CudaForm(config, rope, mx.bfloat16, found)
    whole = WholeForward(found, config, weights, form.turns)
    return Rows(weights, form, True), whole, Layout(config.layers, config.kv_heads, config.head_dim, mx.bfloat16)


def _spans(layout: Any, counts: Sequence[int]) -> list[Any]:
    from tf_llama.rows.cache import LlamaCache
    from tf_llama.rows.span import Span

    spans = []
    for at, count in enumerate(counts):
        cache = LlamaCache(layout, CAPACITY)
        cache.length = LENGTH + at
        spans.append(Span(cache, count, CAPACITY))
    return spans


def _bits(rows: Any, layout: Any, counts: Sequence[int]) -> bytes:
    """A digest of a forward's logits."""
    from tf_llama.checks.bits import digest

    return digest([rows.decode(list(range(1, 1 + sum(counts))), _spans(layout, counts), 16)])


def _read_back(rows: Any, layout: Any, counts: Sequence[int], times: int = 24) -> dict[str, float]:
    """Milliseconds of a forward with greedy draws that are read back, and of what the host builds of it."""
    import mlx.core as mx

    spans, seconds = _spans(layout, counts), []
    for turn in range(times):
        began = time.perf_counter()
        drawn = mx.argmax(rows.decode([turn + 1] * sum(counts), spans, 16), axis=-1)
        built = time.perf_counter()
        drawn.tolist()
        seconds.append((time.perf_counter() - began, built - began))
    whole, building = (statistics.median(part) for part in zip(*seconds[4:], strict=True))
    return {"read_back_ms": ms(whole), "built_ms": ms(building)}


def _queued(rows: Any, layout: Any, counts: Sequence[int], times: int = 24) -> float:
    """Milliseconds a forward where each takes the last one's draws, which nobody reads."""
    import mlx.core as mx

    spans = _spans(layout, counts)
    drawn = mx.zeros((sum(counts),), mx.int32)
    send: Callable[..., None] = mx.async_eval
    for turn in range(times + 4):
        if turn == 4:
            mx.eval(drawn)
            began = time.perf_counter()
        drawn = mx.argmax(rows.decode(drawn, spans, 16), axis=-1).astype(mx.int32)
        send(drawn)
    mx.eval(drawn)
    return ms((time.perf_counter() - began) / times)


if __name__ == "__main__":
    sys.exit(leave(main()))

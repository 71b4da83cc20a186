"""Where a round's time goes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.on_gpu.results import Sink

__all__ = ["drafting", "ms", "parts", "queued", "read", "rounds", "text"]


def rounds(sink: Sink, composed: Any) -> None:
    for place in (300, 15_900):
        if place + 320 > composed.plan.context:
            continue
        cache, ids = read(composed, place)
        for rows in (1, 2, 4, 6, 9, 16):
            if rows <= composed.plan.room(cache.length):
                sink.write("round", at=place, rows=rows, **parts(composed, cache, ids, rows))
        sink.write("queued", at=place, **queued(composed, cache, ids))
    for steps in (1, 2, 4, 8, 15):
        if times := drafting(composed, steps):
            sink.write("drafting", steps=steps, ms=times)


def read(composed: Any, place: int) -> tuple[Any, list[int]]:
    """A cache that holds a prompt of ``place`` tokens, and the tokens."""
    ids = text(composed, place)
    cache = composed.model.make_cache(place + 300)
    for begin, end in composed.plan.chunks(ids):
        composed.model.prefill(cache, ids[begin:end])
    return cache, ids


def text(composed: Any, length: int) -> list[int]:
    from tf_host.exact.sample import SAMPLE

    ids: list[int] = composed.text.encode(SAMPLE, special=False)
    return (ids * (length // len(ids) + 1))[:length]


def parts(composed: Any, cache: Any, ids: list[int], rows: int, times: int = 24) -> dict[str, Any]:
    """Milliseconds of a round by parts, medians (the graph, the draw's, running, reading back), and the worst."""
    import mlx.core as mx

    from tf_plugins.types import Window

    parts: list[tuple[float, ...]] = []
    for turn in range(times):
        tokens = [(token + turn) % composed.text.vocab for token in ids[-rows:]]
        began = time.perf_counter()
        logits = composed.model.verify([Window(cache, tokens)])
        built = time.perf_counter()
        drawn = mx.argmax(logits[:, : composed.text.vocab], axis=-1)
        ready = time.perf_counter()
        mx.eval(drawn)
        ran = time.perf_counter()
        drawn.tolist()
        parts.append((built - began, ready - built, ran - ready, time.perf_counter() - ran))
    names = ("build_ms", "draw_ms", "run_ms", "read_ms")
    medians = {name: ms(statistics.median(part)) for name, part in zip(names, zip(*parts, strict=True), strict=True)}
    totals = [sum(part) for part in parts]
    return medians | {"total_ms": ms(statistics.median(totals)), "worst_ms": ms(max(totals[2:]))}


def queued(composed: Any, cache: Any, ids: list[int], times: int = 24) -> dict[str, Any]:
    """Milliseconds a plain round when none is read back, and the memory that it takes then."""
    import mlx.core as mx

    from tf_plugins.types import Window

    mx.reset_peak_memory()
    before = mx.get_active_memory()
    began = time.perf_counter()
    drawn = None
    for _ in range(times):
        drawn = mx.argmax(composed.model.verify([Window(cache, ids[-1:])])[0])
        mx.async_eval(drawn)  # type: ignore[no-untyped-call]
    mx.eval(drawn)
    each = (time.perf_counter() - began) / times
    return {"ms": ms(each), "peak_over_gib": round((mx.get_peak_memory() - before) / (1 << 30), 2)}


def drafting(composed: Any, steps: int) -> dict[str, float] | None:
    """Milliseconds of one call of the drafter for ``steps`` tokens, the median and the worst of twelve."""
    from tf_plugins.types import DraftRequest

    proposer = next((one for one in composed.proposers if one.name == "drafter"), None)
    if proposer is None:
        return None
    context, stream = text(composed, 200), -9
    proposer.open(stream, context, 1_000)
    times = []
    try:
        for turn in range(14):
            context.append(11 + turn)
            began = time.perf_counter()
            proposer.propose([DraftRequest(stream, context, steps, 0, 0.0, len(context))])
            times.append(time.perf_counter() - began)
    finally:
        proposer.close(stream)
    return {"median": ms(statistics.median(times[2:])), "worst": ms(max(times[2:])), "first": ms(times[0])}


def ms(seconds: float) -> float:
    """Milliseconds, to a thousandth."""
    return round(seconds * 1_000, 3)

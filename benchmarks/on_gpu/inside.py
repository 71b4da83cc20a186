"""One pair in one process: start-up by phases, the bands, where a round's time goes, fixed depths, round by round."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.laid import PLUGINS
from benchmarks.on_gpu.pairs_here import environment, folders
from benchmarks.on_gpu.results import Sink, left
from benchmarks.on_gpu.windows import prompts
from tf_host.cli.leaving import leave
from tf_host.requests import Done, Event, Failed, GenerateRequest, Sampling

DEPTHS = (0, 1, 2, 3, 4, 6, 8)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that the time allows, the most wanted first."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("results", type=Path)
    add("work", type=Path)
    add("target")
    add("drafter")
    add("--parts", default="rounds,spread,oracle")
    add("--tokens", type=int, default=96)
    add("--prompts", type=int, default=6)
    options = parser.parse_args(argv)
    made = folders(options.work)
    # Entry points are looked up on sys.path, so the plugin has to be there before anything is.
    sys.path[:0] = [environment(options.work)["PYTHONPATH"].split(os.pathsep)[0]]
    sink = Sink(options.results, f"inside {options.target}+{options.drafter}")
    composed = _compose(sink, made[options.target], made[options.drafter])
    parts: dict[str, Callable[[], None]] = {
        "rounds": lambda: _rounds(sink, composed),
        "spread": lambda: _spread(sink, composed, options.tokens),
        "oracle": lambda: _oracle(sink, composed, options.tokens, options.prompts),
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
    at = [time.perf_counter(), "before loading"]

    def progress(doing: str, done: float) -> None:
        phase = "probing" if doing.startswith("probing") else doing
        if phase != at[1]:
            phases[at[1]] = round(phases.get(at[1], 0.0) + time.perf_counter() - at[0], 2)
            at[:] = [time.perf_counter(), phase]

    began = time.perf_counter()
    composed = compose(settings, device, Plugins.load(settings), progress)
    phases[at[1]] = round(phases.get(at[1], 0.0) + time.perf_counter() - at[0], 2)
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


# Where a round's time goes.


def _rounds(sink: Sink, composed: Any) -> None:
    for place in (300, 15_900):
        if place + 320 > composed.plan.context:
            continue
        cache, ids = _read(composed, place)
        for rows in (1, 2, 4, 6, 9, 16):
            if rows <= composed.plan.room(cache.length):
                sink.write("round", at=place, rows=rows, **_parts(composed, cache, ids, rows))
        sink.write("queued", at=place, **_queued(composed, cache, ids))
    for steps in (1, 2, 4, 8, 15):
        if times := _drafting(composed, steps):
            sink.write("drafting", steps=steps, ms=times)


def _read(composed: Any, place: int) -> tuple[Any, list[int]]:
    """A cache that holds a prompt of ``place`` tokens, and the tokens."""
    ids = _text(composed, place)
    cache = composed.model.make_cache(place + 300)
    for begin, end in composed.plan.chunks(ids):
        composed.model.prefill(cache, ids[begin:end])
    return cache, ids


def _text(composed: Any, length: int) -> list[int]:
    from tf_host.exact.sample import SAMPLE

    ids = composed.text.encode(SAMPLE, special=False)
    return (ids * (length // len(ids) + 1))[:length]


def _parts(composed: Any, cache: Any, ids: list[int], rows: int, times: int = 24) -> dict[str, Any]:
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
    medians = {name: _ms(statistics.median(part)) for name, part in zip(names, zip(*parts, strict=True), strict=True)}
    totals = [sum(part) for part in parts]
    return medians | {"total_ms": _ms(statistics.median(totals)), "worst_ms": _ms(max(totals[2:]))}


def _queued(composed: Any, cache: Any, ids: list[int], times: int = 24) -> dict[str, Any]:
    """Milliseconds a plain round when none is read back, and the memory that it takes then."""
    import mlx.core as mx

    from tf_plugins.types import Window

    mx.reset_peak_memory()
    before = mx.get_active_memory()
    began = time.perf_counter()
    drawn = None
    for _ in range(times):
        drawn = mx.argmax(composed.model.verify([Window(cache, ids[-1:])])[0])
        mx.async_eval(drawn)
    mx.eval(drawn)
    each = (time.perf_counter() - began) / times
    return {"ms": _ms(each), "peak_over_gib": round((mx.get_peak_memory() - before) / (1 << 30), 2)}


def _drafting(composed: Any, steps: int) -> dict[str, float] | None:
    """Milliseconds of one call of the drafter for ``steps`` tokens, the median and the worst of twelve."""
    from tf_plugins.types import DraftRequest

    proposer = next((one for one in composed.proposers if one.name == "drafter"), None)
    if proposer is None:
        return None
    context, stream = _text(composed, 200), -9
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
    return {"median": _ms(statistics.median(times[2:])), "worst": _ms(max(times[2:])), "first": _ms(times[0])}


# Whole replies, through lanes of their own.


class _Client:
    """Remembers how a reply ended."""

    def __init__(self) -> None:
        self.cancelled = False
        self.last: Done | Failed | None = None

    def send(self, event: Event) -> None:
        if isinstance(event, Done | Failed):
            self.last = event


class _Watch:
    """Keeps what every round took."""

    def __init__(self) -> None:
        self.rounds: list[Any] = []

    def round_done(self, round: Any) -> None:
        self.rounds.append(round)

    def stream_done(self, stream: Any) -> None:
        return


def _lanes(composed: Any, depths: Any, watch: _Watch) -> Any:
    from tf_host.lanes import Lanes
    from tf_host.sampling import Drawer

    drawer = Drawer(composed.text.vocab, composed.target.vocab)
    return Lanes(
        composed.model,
        composed.plan,
        drawer,
        composed.admission,
        proposers=composed.proposers,
        depths=depths,
        observers=(watch,),
    )


def _reply(
    composed: Any, lanes: Any, prompt: Sequence[int], tokens: int, temperature: float = 0.0
) -> tuple[Done, float]:
    """One reply alone, and the seconds that it took, prompt included."""
    client = _Client()
    request = GenerateRequest(
        id="bench",
        prompt=tuple(prompt),
        sampling=Sampling(seed=1, temperature=temperature),
        max_tokens=tokens,
        end_ids=composed.text.end_ids,
        reader=composed.text.reader(),
    )
    began = time.perf_counter()
    lanes.submit(request, client)
    while lanes.step():
        pass
    seconds = time.perf_counter() - began
    if not isinstance(client.last, Done):
        raise RuntimeError(f"the reply failed: {client.last}")
    return client.last, seconds


def _spread(sink: Sink, composed: Any, tokens: int) -> None:
    """Every round of a drafted reply at two places: none may take more than twice its median after the warm-up."""
    from tf_host.lanes.depths import FixedDepths

    for place in (500, 16_000):
        if place + tokens > composed.plan.context:
            continue
        for name, depths in (("plain", FixedDepths(0)), ("depth 5", FixedDepths(5))):
            watch = _Watch()
            lanes = _lanes(composed, depths, watch)
            prompt = _text(composed, place)
            done, seconds = _reply(composed, lanes, prompt, tokens)
            position, by_bucket = place, {}
            for one in watch.rounds:
                by_bucket.setdefault(composed.plan.bucket(position - 1), []).append(_ms(one.seconds))
                position += 1 + sum(one.kept.values())
            worst = {
                bucket: round(max(times) / statistics.median(times), 2) for bucket, times in by_bucket.items() if times
            }
            sink.write(
                "spread",
                at=place,
                way=name,
                tokens=len(done.tokens),
                seconds=round(seconds, 3),
                prompt_s=round(done.prompt_s, 3),
                decode_s=round(done.decode_s, 3),
                worst_over_median=worst,
                rounds_ms=[_ms(one.seconds) for one in watch.rounds],
            )


def _oracle(sink: Sink, composed: Any, tokens: int, count: int) -> None:
    """Each prompt at every fixed depth and as priced, in turn; the prompts' order of ways alternates."""
    from tf_host.lanes.depths import FixedDepths

    watch = _Watch()
    ways: dict[str, Any] = {f"depth {depth}": _lanes(composed, FixedDepths(depth), watch) for depth in DEPTHS}
    ways["priced"] = composed.lanes
    for temperature in (0.0, 0.7):
        for number, prompt in enumerate(prompts(count)):
            ids = list(composed.text.chat(list(prompt.body(900 + number)["messages"])).ids)
            first: tuple[int, ...] | None = None
            for name in ways if number % 2 == 0 else reversed(ways):
                if left() < 12:
                    sink.write("cut", reason="the stage's time is up", temperature=temperature, prompt=prompt.id)
                    return
                done, seconds = _reply(composed, ways[name], ids, tokens, temperature)
                first = first or done.tokens
                sink.write(
                    "oracle",
                    way=name,
                    prompt=prompt.id,
                    temperature=temperature,
                    tokens=len(done.tokens),
                    rounds=done.rounds,
                    seconds=round(seconds, 4),
                    decode_s=round(done.decode_s, 4),
                    drafted=dict(done.drafted),
                    kept=dict(done.kept),
                    equal=done.tokens == first,
                )


def _ms(seconds: float) -> float:
    return round(seconds * 1_000, 3)


if __name__ == "__main__":
    sys.exit(leave(main()))

"""What the bench on a CPU runs, a stage at a time; each leaves a file of JSON lines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.on_cpu import bad_drafter
from benchmarks.servers import HERE, Server, mlx_lm, running, tf_serve
from tf_host.bench.client import Client
from tf_host.bench.prompts import load_prompts
from tf_host.bench.report import cell_record, window_record
from tf_host.bench.summary import summarise
from tf_host.bench.windows import Plan, Window, run

DRAFTER, NONE, AGAIN, PLAIN = "drafter", "no drafter", "no drafter again", "no drafts"
SLOW_STEP_S = 0.1
FORCED_DEPTH = 5


@dataclass(frozen=True)
class Bench:
    """What is common to the stages.

    Attributes:
        results: folder of the stages' files.
        target, drafter: folders of the demo pair.
        windows: windows of a stage.
        few: windows of the stages that take long or need few.
        tokens: most reply tokens.
        depths: fixed depths of the oracle.
        starts: cold starts each way.
    """

    results: Path
    target: Path
    drafter: Path
    windows: int = 24
    few: int = 6
    tokens: int = 128
    depths: tuple[int, ...] = tuple(range(16))
    starts: int = 10

    def plan(self, **more: Any) -> Plan:
        """Windows over the repository's prompts."""
        prompts = load_prompts(HERE / "prompts.jsonl")
        return replace(
            Plan(prompts, (1, 2), (0.0, 0.7), windows=self.windows, tokens=self.tokens),
            **more,
        )


def pair(bench: Bench) -> None:
    """With the drafter and without it, and a second server without: what two equal servers differ by."""
    servers = [tf_serve(DRAFTER, "--drafter"), tf_serve(NONE), tf_serve(AGAIN)]
    _alternate(bench, "pair", servers, bench.plan())


def plain(bench: Bench) -> None:
    """With the drafter, and without any drafts at all."""
    servers = [tf_serve(DRAFTER, "--drafter"), tf_serve(PLAIN, "--no-drafts")]
    _alternate(bench, "plain", servers, bench.plan(levels=(1,), temperatures=(0.0,)))


def equal(bench: Bench) -> None:
    """Every reply alone, and undrafted on the same server."""
    _alternate(bench, "equal", [tf_serve(DRAFTER, "--drafter")], bench.plan(windows=bench.few, alone=True, serial=True))


def oracle(bench: Bench) -> None:
    """Every fixed depth beside pricing, on the same windows; depth 0 is the server without the drafter."""
    plan = bench.plan(windows=max(bench.few, bench.windows // 3))
    fixed = [
        tf_serve(f"depth {depth}", "--drafter", "--draft-depth", str(depth)) if depth else tf_serve("depth 0")
        for depth in bench.depths
    ]
    _in_turn(bench, "oracle", [tf_serve(DRAFTER, "--drafter"), *fixed], plan)


def mlx(bench: Bench) -> None:
    """``mlx_lm.server`` on the same folder, as it comes and with the same MKL and float32, and plain ``tf-serve``."""
    target, draft = bench.target, ("--draft-model", str(bench.drafter))
    servers = [
        tf_serve(PLAIN, "--no-drafts"),
        mlx_lm("mlx-lm", target),
        mlx_lm("mlx-lm draft", target, *draft),
        mlx_lm("mlx-lm same", target, same=True),
        mlx_lm("mlx-lm same draft", target, *draft, same=True),
    ]
    _alternate(bench, "mlx", servers, bench.plan(windows=bench.few, levels=(1,), temperatures=(0.0,)))


def bad(bench: Bench) -> None:
    """A drafter with random weights, and one that sleeps, beside two servers without one: what equal ones differ by."""
    folder = bad_drafter.make(bench.drafter, bench.results / "bad-drafter")
    module = ("-m", "benchmarks.on_cpu.slow_serve", str(SLOW_STEP_S))
    slow = (sys.executable, *module, *tf_serve("", "--drafter").command[3:])
    servers = [tf_serve("bad drafter", f"--drafter={folder}"), Server("slow drafter", slow), tf_serve(NONE)]
    servers.append(tf_serve(AGAIN))
    _alternate(bench, "bad", servers, bench.plan(levels=(1,)))


def self_drafted(bench: Bench) -> None:
    """The target as its own drafter at a forced depth: nearly every draft is kept."""
    server = tf_serve("itself", f"--drafter={bench.target}", "--draft-depth", str(FORCED_DEPTH))
    _alternate(bench, "self", [server], bench.plan(windows=bench.few, levels=(1,), temperatures=(0.0,)))


def cold(bench: Bench) -> None:
    """The first request of a fresh server, with the drafter and without, in turn."""
    prompts = load_prompts(HERE / "prompts.jsonl")
    with _Sink(bench, "cold") as sink:
        for start in range(bench.starts):
            one = bench.plan(prompts=(prompts[start % len(prompts)],), windows=1, levels=(1,), temperatures=(0.0,))
            both = [tf_serve(DRAFTER, "--drafter"), tf_serve(NONE)]
            for server in both if start % 2 == 0 else reversed(both):
                with running([server], bench.results / "logs") as urls:
                    [[window]] = asyncio.run(_collect(one, [server], urls, sink, greet=False))
                print(f"cold {start + 1}/{bench.starts}  {server.label}: {_shown(window)}", file=sys.stderr)


def parts(bench: Bench) -> None:
    """A round by its parts, and fixed depths beside pricing, in one process."""
    made = bench.results / "parts.partial"
    bench.results.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.round_parts", str(made), "--prompts", str(bench.few)]
    subprocess.run([*command, "--tokens", str(bench.tokens)], check=True, stdout=sys.stderr)
    made.replace(bench.results / "parts.jsonl")


STAGES: dict[str, Callable[[Bench], None]] = {
    "pair": pair,
    "plain": plain,
    "equal": equal,
    "oracle": oracle,
    "mlx": mlx,
    "bad": bad,
    "self": self_drafted,
    "cold": cold,
    "parts": parts,
}


class _Sink:
    """A stage's file, written beside and put in place when the stage is over."""

    def __init__(self, bench: Bench, stage: str) -> None:
        bench.results.mkdir(parents=True, exist_ok=True)
        self._path = bench.results / f"{stage}.jsonl"
        self._partial = self._path.with_suffix(".partial")

    def __enter__(self) -> _Sink:
        self._file = self._partial.open("w", encoding="utf-8")
        self.write({"kind": "stage", "began": time.strftime("%Y-%m-%d %H:%M")})
        return self

    def write(self, record: dict[str, Any]) -> None:
        print(json.dumps(record, ensure_ascii=False), file=self._file, flush=True)

    def __exit__(self, kind: object, *rest: object) -> None:
        self._file.close()
        if kind is None:
            self._partial.replace(self._path)


def _alternate(bench: Bench, stage: str, servers: Sequence[Server], plan: Plan) -> None:
    """All servers up at once, each window on every one of them in turn."""
    with _Sink(bench, stage) as sink, running(servers, bench.results / "logs") as urls:
        asyncio.run(_collect(plan, servers, urls, sink))


def _in_turn(bench: Bench, stage: str, servers: Sequence[Server], plan: Plan) -> None:
    """One server after another, all windows on each; too many to be up at once."""
    with _Sink(bench, stage) as sink:
        for server in servers:
            with ExitStack() as stack:
                urls = stack.enter_context(running([server], bench.results / "logs"))
                asyncio.run(_collect(plan, [server], urls, sink))


async def _collect(
    plan: Plan, servers: Sequence[Server], urls: Sequence[str], sink: _Sink, *, greet: bool = True
) -> list[tuple[Window, ...]]:
    clients = [Client(url, label=server.label, model=server.model) for server, url in zip(servers, urls, strict=True)]
    steps = []
    try:
        for client in clients:
            await (client.greet() if greet else client.find_model())
        async for windows in run(plan, clients):
            steps.append(windows)
            for window in windows:
                sink.write(window_record(window) | {"same": windows[0].same(window)})
            shown = " / ".join(_shown(window) for window in windows)
            cell = windows[0].cell
            where = f"{len(steps)}/{len(plan.steps)}  T={cell.temperature:g} x{cell.streams}"
            print(f"{where}  {shown}", file=sys.stderr, flush=True)
    finally:
        for client in clients:
            await client.close()
    for summary in summarise(steps):
        sink.write(cell_record(summary))
    return steps


def _shown(window: Window) -> str:
    problems = [reply.problem for reply in window.replies if reply.problem]
    return problems[0] if problems else f"{window.rate:.1f}" if window.rate else "-"

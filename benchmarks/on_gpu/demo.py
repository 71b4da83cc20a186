"""The demo pair on this device: the long check, then drafted, undrafted and shared replies compared."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.on_gpu.results import Sink
from benchmarks.on_gpu.windows import collect, prompts
from benchmarks.servers import end_with_what_was_started, running, tf_serve
from tf_host.bench.windows import Plan


def main(results: Path, logs: Path) -> None:
    """Record the check's table, and whether replies are equal."""
    end_with_what_was_started()
    sink = Sink(results, "demo")
    began = time.time()
    command = [sys.executable, "-m", "tf_host.cli.llama_run", "demo", "--check"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    print(said.stdout, said.stderr[-3_000:], sep="\n", flush=True)
    sink.write("check", rc=said.returncode, seconds=round(time.time() - began, 1), table=said.stdout[-6_000:])
    began = time.time()
    servers = [tf_serve("drafter", "demo", "--drafter"), tf_serve("no drafter", "demo")]
    plan = Plan(prompts(4), (1, 2), (0.0, 0.7), windows=4, tokens=96, serial=True)
    with running(servers, logs) as urls:
        sink.write("started", seconds=round(time.time() - began, 1))
        asyncio.run(collect(sink, plan, servers, urls))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

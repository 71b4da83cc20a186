"""``tf-llama-run --check`` on a laid target."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.laid import PLUGINS
from benchmarks.on_gpu.pairs_here import environment, folders
from benchmarks.on_gpu.results import Sink, left


def main(results: Path, work: Path, target: str) -> int:
    """Run it and record its table."""
    folder = folders(work)[target]
    sink = Sink(results, f"check {target}")
    command = [sys.executable, "-m", "tf_host.cli.llama_run", str(folder), "--check", "--family", "llama"]
    command += ["--use-plugins", ",".join(PLUGINS), "--memory-gib", "125", "--prompt-cache-gib", "0"]
    began = time.time()
    try:
        said = subprocess.run(
            command,
            env=os.environ | environment(work),
            capture_output=True,
            text=True,
            timeout=max(10.0, left() - 5),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        sink.write("cut", reason="the stage's time is up", said=str(error.stderr)[-2_000:])
        return 1
    print(said.stdout, said.stderr[-3_000:], sep="\n", flush=True)
    sink.write("check", rc=said.returncode, seconds=round(time.time() - began, 1), table=said.stdout[-8_000:])
    return said.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))

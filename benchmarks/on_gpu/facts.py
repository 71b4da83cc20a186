"""What the machine is, and its two ceilings: copying memory and multiplying matrices."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.on_gpu.results import Sink
from tf_host.cli.leaving import leave

QUERY = "name,driver_version,memory.total,memory.used,clocks.sm,clocks.mem,temperature.gpu,power.draw"
PACKAGES = (
    "tf-plugins",
    "mlx",
    "mlx-cuda-13",
    "mlx-cuda-12",
    "mlx-lm",
    "transformers",
    "nvidia-cublas",
    "nvidia-cudnn-cu13",
)


def main(results: Path) -> None:
    """Record the machine, the versions and the ceilings."""
    import mlx.core as mx

    sink = Sink(results, "facts")
    sink.write(
        "machine",
        date=time.strftime("%Y-%m-%d %H:%M"),
        gpu=_said("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"),
        cpus=os.cpu_count(),
        memory=_memory(),
        shm=_said("df", "-h", "/dev/shm", "/tmp"),
        python=platform.python_version(),
        kernel=platform.release(),
        cuda_home=os.environ.get("CUDA_HOME"),
        versions={name: version for name in PACKAGES if (version := _version(name))},
        device={key: str(value) for key, value in mx.device_info().items()},
    )
    size = 8192
    one = mx.random.normal((size, size)).astype(mx.bfloat16)
    large = mx.random.normal((1 << 15, 1 << 16)).astype(mx.bfloat16)
    mx.eval(one, large)
    copied = _seconds(mx, lambda: -large)
    product = _seconds(mx, lambda: one @ one)
    sink.write(
        "ceilings",
        copy_tb_s=round(2 * large.nbytes / copied / 1e12, 2),
        matmul_tflops=round(2 * size**3 / product / 1e12, 1),
    )


def _seconds(mx: Any, call: Any) -> float:
    times = []
    for _ in range(8):
        mx.synchronize()
        began = time.perf_counter()
        mx.eval(call())
        times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def _memory() -> str:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return ", ".join(" ".join(line.split()) for line in lines[:3])


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    leave(0)

"""The machine and the versions that a bench ran on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("tf-plugins", "mlx", "mlx-lm", "mkl")


def describe() -> list[str]:
    """Lines for a reader: processor, memory, system, versions."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    lines = [
        f"{_processor()}, {os.cpu_count()} cores in use, {gib:.0f} GiB of memory",
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    ]
    return [*lines, ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

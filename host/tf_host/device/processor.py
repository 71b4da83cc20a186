"""The CPU: its instruction set and its cores."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})


def instructions(cpuinfo: str | None = None) -> frozenset[str]:
    """Instruction set flags of the first core; empty where the system lists none."""
    for line in _text(cpuinfo).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def instructions_digest() -> str:
    """A short digest of the instruction set, or of what the system calls the processor."""
    known = instructions() or {platform.machine(), platform.processor()}
    return hashlib.sha256(" ".join(sorted(known)).encode()).hexdigest()[:16]


def vector_branch(flags: frozenset[str]) -> str | None:
    """The widest vector instructions that MKL names a branch for, or ``None``."""
    if flags >= _AVX512:
        return "AVX512"
    return "AVX2" if "avx2" in flags else None


def physical_cores(cpuinfo: str | None = None, usable: frozenset[int] | None = None) -> int:
    """Physical cores among the processors that this process may run on, at least 1."""
    if usable is None:
        usable = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores: set[tuple[str, str]] = set()
    for block in _text(cpuinfo).split("\n\n"):
        fields = {
            name.strip(): value.strip() for name, _, value in (line.partition(":") for line in block.splitlines())
        }
        number = fields.get("processor", "")
        if number.isdigit() and (usable is None or int(number) in usable):
            cores.add((fields.get("physical id", ""), fields.get("core id", number)))
    return len(cores) or len(usable or ()) or os.cpu_count() or 1


def _text(cpuinfo: str | None) -> str:
    if cpuinfo is not None:
        return cpuinfo
    try:
        return _CPUINFO.read_text("utf-8", "replace")
    except OSError:
        return ""

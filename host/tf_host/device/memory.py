"""Bytes of memory."""

from __future__ import annotations

import os
from pathlib import Path

from tf_plugins.types import Device

# A container's own limit, in cgroups of version 2 and 1; "max" or a huge number where there is none.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def ram(limits: tuple[Path, ...] = _LIMITS) -> int:
    """The machine's memory in bytes, or the container's share of it."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in limits:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def device_memory(device: Device) -> int:
    """Bytes that the device can hold: a GPU's recommended working set or memory, else RAM."""
    if device.kind == "gpu":
        import mlx.core as mx

        facts = mx.device_info(mx.gpu)
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if found := facts.get(key):
                return int(found)
    return ram()

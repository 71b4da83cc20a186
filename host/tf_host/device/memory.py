"""Bytes of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tf_plugins.types import Device

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def ram(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The machine's memory in bytes, or what a container or a service (``MemoryMax=``) may have of it.

    Args:
        cgroups: where control groups are mounted.
        own: lists those of this process.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in _limits(cgroups, own):
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def _limits(cgroups: Path, own: Path) -> Iterator[Path]:
    """Files with a limit of this process, each "max" or a huge number where there is none: its groups' and all above.

    Lines of ``own`` are ``0::/path`` in cgroups of version 2, ``4:memory:/path`` in those of version 1. In a container
    the path may be the host's, and its own group the root.
    """
    yield from (cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes")
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        second = number == "0" and not controllers
        if second or "memory" in controllers.split(","):
            root, name = (cgroups, "memory.max") if second else (cgroups / "memory", "memory.limit_in_bytes")
            group = root / path.lstrip("/")
            yield from (folder / name for folder in (group, *group.parents) if folder.is_relative_to(root))


def device_memory(device: Device) -> int:
    """Bytes that the device can hold: a GPU's recommended working set or memory, else RAM."""
    if device.kind == "gpu":
        import mlx.core as mx

        facts = mx.device_info(mx.gpu)
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if found := facts.get(key):
                return int(found)
    return ram()

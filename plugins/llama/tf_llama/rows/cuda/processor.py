"""What the kernels must know of a CUDA device, from its driver; MLX does not say."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

__all__ = ["Processor", "processor"]

# CUdevice_attribute of cuda.h.
_MULTIPROCESSORS, _MAJOR, _SHARED = 16, 75, 97


@dataclass(frozen=True, slots=True)
class Processor:
    """One device.

    Attributes:
        major: of its compute capability.
        multiprocessors: how many.
        shared: bytes of shared memory that a block may have.
    """

    major: int
    multiprocessors: int
    shared: int


def processor() -> Processor | None:
    """The first device, on which MLX computes; ``None`` where the driver does not answer."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, value = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    found = []
    for attribute in (_MAJOR, _MULTIPROCESSORS, _SHARED):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
        found.append(value.value)
    return Processor(*found)

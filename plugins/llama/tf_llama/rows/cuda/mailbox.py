"""A launch's few numbers, in the device's own memory.

What MLX makes of a list of numbers lies in memory that device and host share. The first kernel that reads it waits a
tenth of a millisecond until it has moved over (H200, measured).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import mlx.core as mx

from tf_llama.rows.cuda.addresses import addresses

__all__ = ["Mailbox", "number"]

_SLOTS = 64
_NON_BLOCKING = 1
_FEW = 64


def number(value: float) -> mx.array:
    """Float32 ``[64]``, of which a kernel reads the first.

    Arrays of up to 8 bytes lie in shared memory, whoever makes them: an epsilon there, which was read twice a layer,
    took 1.6 ms of a 33B's forward (H200).
    """
    made = mx.full((_FEW,), value)
    mx.eval(made)
    return made


class Mailbox:
    """Slots that the driver copies numbers into, in turn.

    A slot is filled again once the launches that read its half of them are over.

    Args:
        numbers: most numbers of 32 bits of a launch.
    """

    def __init__(self, numbers: int) -> None:
        memory = mx.zeros((_SLOTS, numbers), mx.int32)
        self._slots = mx.split(memory, _SLOTS)  # views: an index would make a copy
        mx.eval(memory, self._slots)
        self._address: Any = addresses([memory]).item()
        self._numbers, self._next = numbers, 0
        self._last: list[mx.array | None] = [None, None]

    def put(self, numbers: bytes, last: mx.array | None = None) -> mx.array:
        """The numbers in memory of the device, int32; what is behind them is of no matter.

        Args:
            numbers: at most as many as the slots have room for.
            last: something that the launch before this one makes, where that was not read back yet.
        """
        if len(numbers) > 4 * self._numbers:
            raise ValueError(f"{len(numbers)} bytes for slots of {4 * self._numbers}")
        half, first = divmod(self._next, _SLOTS // 2)
        if first == 0:
            if self._last[half] is not None:
                mx.eval(self._last[half])
            self._last[1 - half] = last
        _copy(self._address + 4 * self._numbers * self._next, numbers)
        slot, self._next = self._slots[self._next], (self._next + 1) % _SLOTS
        return slot


def _copy(address: int, data: bytes) -> None:
    """By a stream of its own, so that it does not wait for what the device is doing."""
    driver, stream = _driver()
    size = ctypes.c_size_t(len(data))
    error = driver.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(address), data, size, stream)
    error = error or driver.cuStreamSynchronize(stream)
    if error:
        raise RuntimeError(f"CUDA's driver answers {error} to a copy of {len(data)} bytes")


@cache
def _driver() -> tuple[Any, ctypes.c_void_p]:
    driver, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if error := driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING):
        raise RuntimeError(f"CUDA's driver answers {error} to a new stream")
    return driver, stream

"""One kept prompt state as a safetensors file, written in pieces and read with every byte checked."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, BinaryIO

# safetensors' names of MLX dtypes, and bytes an element.
_NAMES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
_SIZES = {"BF16": 2} | {f"{kind}{bits}": bits // 8 for kind in "FIU" for bits in (8, 16, 32, 64)}
PIECE = 16 << 20
"""Bytes written at once, which takes some 50 milliseconds."""

_HEADER_MOST = 100_000_000
_NO_CHECKSUM = "0" * 32


class Damaged(ValueError):
    """A file that is not what was written."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself: its metadata and, by name, dtype, shape and the byte range of each array."""

    metadata: dict[str, str]
    arrays: dict[str, tuple[str, tuple[int, ...], int, int]]
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return max((end for _, _, _, end in self.arrays.values()), default=0)


def write(file: BinaryIO, arrays: Mapping[str, Any], metadata: Mapping[str, str]) -> Iterator[None]:
    """Write a file piece by piece; yields after each, so that the caller may do something else in between.

    The checksum covers header and data and is filled in last: a file without one was never finished.
    """
    import mlx.core as mx

    described: dict[str, Any] = {"__metadata__": dict(metadata) | {"checksum": _NO_CHECKSUM}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = _NAMES[str(array.dtype).removeprefix("mlx.core.")]
        described[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    header = _packed(described)
    checksum = blake2b(header, digest_size=16)
    file.write(header)
    for array in arrays.values():
        data = memoryview(array.reshape(-1).view(mx.uint8))
        for begin in range(0, len(data), PIECE):
            checksum.update(data[begin : begin + PIECE])
            file.write(data[begin : begin + PIECE])
            yield
    described["__metadata__"]["checksum"] = checksum.hexdigest()
    file.seek(0)
    file.write(_packed(described))


def read_header(file: BinaryIO, size: int) -> Header:
    """The header of a file of ``size`` bytes; ``Damaged`` when it does not describe the file exactly."""
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(_HEADER_MOST, size - 8):
            raise Damaged("its header is longer than the file")
        described = json.loads(file.read(length))
        metadata = described.pop("__metadata__")
        arrays = {name: (one["dtype"], tuple(one["shape"]), *one["data_offsets"]) for name, one in described.items()}
        found = Header(metadata, arrays, 8 + length)
        _check(found, size)
    except Damaged:
        raise
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged("its header cannot be read") from error
    return found


def read_arrays(file: BinaryIO, header: Header) -> dict[str, Any]:
    """The arrays behind a header, evaluated; ``Damaged`` when a byte is not what was written."""
    import mlx.core as mx
    import numpy as np

    file.seek(0)
    checksum = blake2b(_without_checksum(file.read(header.start), header.metadata), digest_size=16)
    arrays: dict[str, Any] = {}
    for name, (dtype, shape, begin, end) in sorted(header.arrays.items(), key=lambda one: one[1][2]):
        data = file.read(end - begin)
        checksum.update(data)
        kind = next(name for name, short in _NAMES.items() if short == dtype)
        arrays[name] = mx.array(np.frombuffer(data, np.uint8)).view(getattr(mx, kind)).reshape(shape)
        mx.eval(arrays[name])
    if checksum.hexdigest() != header.metadata.get("checksum"):
        raise Damaged("its checksum does not match")
    return arrays


def _packed(described: Mapping[str, Any]) -> bytes:
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _without_checksum(header: bytes, metadata: Mapping[str, str]) -> bytes:
    return header.replace(f'"checksum":"{metadata.get("checksum")}"'.encode(), f'"checksum":"{_NO_CHECKSUM}"'.encode())


def _check(header: Header, size: int) -> None:
    if not all(isinstance(value, str) for value in header.metadata.values()):
        raise Damaged("its metadata is not text")
    expected = 0
    for dtype, shape, begin, end in sorted(header.arrays.values(), key=lambda one: one[2]):
        whole = all(type(number) is int and number > 0 for number in (*shape, end))
        if not whole or begin != expected or end - begin != _SIZES[dtype] * math.prod(shape):
            raise Damaged("its arrays do not fill it")
        expected = end
    if header.start + expected != size:
        raise Damaged("it is not as long as its header says")

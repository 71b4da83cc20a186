"""Safetensors headers: what a file holds, without reading a weight."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tf_llama.refusals import damaged
from tf_plugins import Refused

__all__ = ["Tensor", "WeightFile", "read_header"]

_LIMIT = 100_000_000
"""Bytes of the longest header that the format allows."""

_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor's entry: dtype as the format names it (``"BF16"``), shape, and bytes stored."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file.

    Attributes:
        path: the file.
        size: its bytes.
        header: the header's bytes as stored.
        tensors: entries by name.
    """

    path: Path
    size: int
    header: bytes
    tensors: dict[str, Tensor]


def read_header(path: Path) -> WeightFile:
    """The header of a safetensors file, checked against the file's size.

    Raises:
        Refused: the file is unreadable, cut short, or its header is no safetensors header.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LIMIT):
                raise Refused(damaged(path, "it does not begin with a safetensors header"))
            header = file.read(length)
    except OSError as error:
        raise Refused(damaged(path, error.strerror or str(error))) from error
    try:
        entries = json.loads(header)
        tensors = {name: _tensor(entry) for name, entry in entries.items() if name != "__metadata__"}
        spans = sorted(tuple(entry["data_offsets"]) for name, entry in entries.items() if name in tensors)
        end = spans[-1][1] if spans else 0
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(damaged(path, "its safetensors header cannot be read")) from error
    if size != 8 + length + end:
        raise Refused(damaged(path, f"it has {size} bytes, and its header says {8 + length + end}"))
    if any(before[1] != after[0] for before, after in pairwise([(0, 0), *spans])):
        raise Refused(damaged(path, "its safetensors header has tensors that overlap, or a hole between them"))
    return WeightFile(path, size, header, tensors)


def _tensor(entry: Any) -> Tensor:
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or not all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end)):
        raise ValueError("no name, or sizes are not counts")
    bits = _BITS.get(dtype)  # a newer writer may know others: whoever reads on says that they are not served
    if end < begin or (bits is not None and end - begin != -(-math.prod(shape) * bits // 8)):
        raise ValueError("bytes do not fit the shape")
    return Tensor(dtype, shape, end - begin)

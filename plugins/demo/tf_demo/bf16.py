"""bfloat16 safetensors, written one tensor at a time.

NumPy has no bfloat16, and MLX may be imported only once the host has prepared it, hence this module.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Weight(Protocol):
    """A named array that is read only when its turn comes."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self) -> NDArray[np.float32]: ...


def rounded(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Finite values as the bits of bfloat16, ties to even, as MLX and PyTorch round."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path: Path, weights: Sequence[Weight], report: Callable[[float], None]) -> None:
    """Write the weights to `path` in their order; `report` is told the share done after each.

    Raises:
        ValueError: a weight has another shape than it announced.
        OSError: the file cannot be written.
    """
    header, total = _header(weights)
    done = 0
    with path.open("wb") as file:
        file.write(header)
        for weight in weights:
            values = weight.read()
            if values.shape != weight.shape:
                raise ValueError(f"{weight.name} is shaped {values.shape}, not {weight.shape}")
            done += file.write(rounded(values).astype("<u2", copy=False).tobytes())
            report(done / total)


def _header(weights: Sequence[Weight]) -> tuple[bytes, int]:
    """The file's header with its length before it, padded to 8 bytes; and the bytes of data that follow."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for weight in weights:
        start, end = end, end + 2 * math.prod(weight.shape)
        entries[weight.name] = {"dtype": "BF16", "shape": weight.shape, "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, end

"""A drafter of another's shape with random weights."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np


def make(drafter: Path, folder: Path) -> Path:
    """Copy a drafter's folder with every weight drawn anew (normal, 0.02), the same shapes and dtype (bfloat16)."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(drafter, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    rng = np.random.default_rng(0)
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "BF16":
            raise ValueError(f"{name} is {tensor['dtype']}, expected BF16")
        begin, end = (8 + length + offset for offset in tensor["data_offsets"])
        values = rng.normal(0, 0.02, (end - begin) // 2).astype(np.float32)
        data[begin:end] = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    path.write_bytes(data)
    return folder

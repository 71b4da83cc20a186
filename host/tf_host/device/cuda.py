"""What MLX on CUDA needs of its environment, before it is imported."""

from __future__ import annotations

import contextlib
import os
from importlib import metadata

from tf_plugins import Refused
from tf_plugins.folders import cache_folder
from tf_plugins.types import Refusal

__all__ = ["KEPT_GRAPHS", "NEEDS_MLX", "keep_kernels", "refuse_old_mlx", "set_environment"]

NEEDS_MLX = (0, 32, 4)
"""Earlier ones have a race in CUDA's quantized matmul."""

KEPT_GRAPHS = {"MLX_CUDA_SDPA_CACHE_SIZE": 4_096, "MLX_CUDA_GRAPH_CACHE_SIZE": 2_048}
"""Graphs that MLX keeps, at least: of attention, one for each bucket, rung and tile, 40 ms to build anew; and of
whatever else is sent together, one for each order of operations. Streams that share rounds make many of those."""


def set_environment() -> None:
    """Let a server live long: MLX keeps 400 graphs and, once 800 were built, fails whatever needs a new one.

    That count never starts again, so it would end any server in time, however well its graphs are reused.
    """
    for name, least in KEPT_GRAPHS.items():
        given = os.environ.get(name, "")
        if not given.isdigit() or int(given) < least:
            os.environ[name] = str(least)
    os.environ.setdefault("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")


def keep_kernels() -> None:
    """Keep compiled kernels in this user's folder: MLX's own is shared, and it loads what has the right name."""
    if not os.environ.get("MLX_PTX_CACHE_DIR"):
        folder = cache_folder() / "cuda"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.environ["MLX_PTX_CACHE_DIR"] = str(folder)


def refuse_old_mlx() -> None:
    """Raise ``Refused`` where the installed MLX is not exact on CUDA."""
    version = metadata.version("mlx")
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < NEEDS_MLX:
        needed = ".".join(map(str, NEEDS_MLX))
        raise Refused(
            Refusal("mlx_version", f"mlx {version} is not exact on CUDA", f"pip install 'mlx[cuda13]>={needed}'")
        )

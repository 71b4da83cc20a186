"""The end of a process that used a GPU."""

from __future__ import annotations

import os
import sys


def leave(code: int) -> int:
    """Return ``code``; with MLX on CUDA, end the process here.

    MLX's CUDA threads abort the interpreter's own exit ("terminate called without an active exception", measured with
    mlx 0.32.4), which would turn exit code 0 into a crash.
    """
    mlx = sys.modules.get("mlx.core")
    if mlx is not None and mlx.cuda.is_available():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code

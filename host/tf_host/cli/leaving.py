"""The end of a process that used MLX."""

from __future__ import annotations

import atexit
import os
import sys


def leave(code: int) -> int:
    """Return ``code``, or end the process with it here where MLX was loaded; call it last of all.

    MLX's threads may abort the interpreter's own exit ("terminate called without an active exception": on CUDA always,
    on a CPU after a start that failed; measured with mlx 0.32.4), which turns any exit code into that of a crash.
    """
    if "mlx.core" in sys.modules:
        atexit._run_exitfuncs()  # what was registered still runs: folders are removed, logs flushed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code

"""mlx-lm, imported without its side effect."""

from __future__ import annotations

import resource
from types import ModuleType
from typing import Any


def import_mlx_lm() -> ModuleType:
    """Import mlx-lm and keep the process's limit of open files.

    mlx-lm lowers both limits to a few thousand as it is imported, and only root can raise the hard one again, so the
    call is kept from happening.
    """
    setrlimit = resource.setrlimit

    def all_but_files(which: int, limits: tuple[int, int]) -> None:
        if which != resource.RLIMIT_NOFILE:
            setrlimit(which, limits)

    patched: Any = resource
    patched.setrlimit = all_but_files
    try:
        import mlx_lm
    finally:
        patched.setrlimit = setrlimit
    module: ModuleType = mlx_lm
    return module

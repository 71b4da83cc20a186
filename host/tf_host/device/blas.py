"""The matrix library of a CPU.

MLX's wheel for Linux is linked with the reference BLAS. A library that is loaded for everybody before MLX takes its
place. Intel's MKL is several times faster, and on Intel's processors, with a named branch in strict mode, a row has the
same bits at every width and thread count. On others it takes the setting and goes on as before: there the probe finds
bands, as with any other library.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from tf_host.device import processor
from tf_plugins import Refused
from tf_plugins.types import Refusal

Choice = Literal["auto", "mkl", "none", "mkl-plain"]

# Asking MKL anything loads the rest of it for the whole process, and what it misses ends the process: so a process of
# its own is asked. Strict mode is bit 16 of the answer, over the branch's number.
_ASK = """
import ctypes, sys
mkl = ctypes.CDLL(sys.argv[1])
settings = mkl.MKL_CBWR_Get(-1)
print(settings & 0xFFFF, settings >> 16 & 1)
"""
_AUTO = 2
"""MKL's number for the branch that it chooses itself (``MKL_CBWR_AUTO``, mkl_service.h), in place of one it hasn't."""


@dataclass(frozen=True, slots=True)
class Blas:
    """The matrix library in use.

    Attributes:
        name: ``"mkl"``, or ``"none"`` for MLX's own.
        version: its version, empty for MLX's own.
        branch: MKL's setting for reproducible sums: ``"AVX512,STRICT"`` or ``"AVX2,STRICT"``, ``"AUTO"`` where the
            processor has no strict mode, ``"plain"`` without one; empty for MLX's own.
        threads: its threads, 0 for MLX's own.
    """

    name: str
    version: str = ""
    branch: str = ""
    threads: int = 0

    def __str__(self) -> str:
        if self.name == "none":
            return "MLX's own matrix library"
        return f"MKL {self.branch}, {self.threads} thread{'s' if self.threads != 1 else ''}"


NONE = Blas("none")


def choose(choice: Choice, threads: int | None) -> tuple[Blas, Path | None]:
    """What to use and the library to load; nothing is loaded yet.

    ``auto`` is MKL where it is installed and works, and MLX is installed for a CPU.

    Raises:
        Refused: MKL was asked for and cannot be used.
    """
    if choice == "none" or (choice == "auto" and (not _on_x86_linux() or mlx_is_for_gpu())):
        return NONE, None
    if not _on_x86_linux():
        raise _refused("MKL runs on x86-64 Linux", "leave --cpu-blas out")
    library = find_mkl()
    if library is None:
        if choice == "auto":
            return NONE, None
        raise _refused("MKL is not installed", "pip install 'tf-plugins[mkl]', or take --cpu-blas none")
    branch = processor.vector_branch(processor.instructions())
    if choice != "mkl-plain" and branch is None:
        if choice == "auto":
            return NONE, None
        raise _refused("this processor has no AVX2, which MKL's reproducible sums need", "take --cpu-blas none")
    blas = Blas(
        "mkl",
        metadata.version("mkl"),
        "plain" if choice == "mkl-plain" else f"{branch},STRICT",
        threads or processor.physical_cores(),
    )
    taken = _taken(library, blas)
    if isinstance(taken, Blas):
        return taken, library
    if choice == "auto":
        return NONE, None
    raise _refused(taken, "take --cpu-blas none")


def load(blas: Blas, library: Path) -> None:
    """Load MKL for the whole process; MLX must not be imported yet."""
    settings = _environment(blas)
    for name in ("MKL_CBWR", *settings):
        os.environ.pop(name, None)
    os.environ.update(settings)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def find_mkl() -> Path | None:
    """The runtime library of the installed ``mkl`` package."""
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return None
    listed = [Path(str(file.locate())) for file in files if file.name.startswith("libmkl_rt.so")]
    beside = sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))  # where pip puts the package's libraries
    return next((path.resolve() for path in (*listed, *beside) if path.exists()), None)


def mlx_is_for_gpu() -> bool:
    """Whether MLX is installed with a GPU backend; looked up, not imported."""
    return any(name.lower().startswith(("mlx-cuda", "mlx-metal")) for name in _installed())


def _installed() -> list[str]:
    return [name for found in metadata.distributions() if (name := found.metadata["Name"])]


def _on_x86_linux() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _environment(blas: Blas) -> dict[str, str]:
    fixed = {
        "MKL_NUM_THREADS": str(blas.threads),
        "MKL_DYNAMIC": "FALSE",
        "MKL_INTERFACE_LAYER": "LP64",  # MLX calls with 32-bit sizes
        "MKL_THREADING_LAYER": "INTEL",  # the one that the package brings
    }
    return fixed if blas.branch == "plain" else {**fixed, "MKL_CBWR": blas.branch}


def _taken(library: Path, blas: Blas) -> Blas | str:
    """What MKL makes of these settings on this processor, or why it cannot be used."""
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    try:
        asked = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _ASK, str(library)],
            env={**environment, **_environment(blas)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"MKL cannot be tried: {error}"
    if asked.returncode != 0:
        said = (asked.stderr or asked.stdout).strip().splitlines()
        return f"MKL does not load: {said[-1] if said else f'exit status {asked.returncode}'}"
    if blas.branch == "plain":
        return blas
    branch, strict = map(int, asked.stdout.split()[-2:])
    if not strict:
        return f"MKL does not take {blas.branch} on this processor"
    return replace(blas, branch="AUTO") if branch == _AUTO else blas


def _refused(problem: str, hint: str) -> Refused:
    return Refused(Refusal("cpu_blas", f"--cpu-blas mkl cannot be served: {problem}", hint, param="--cpu-blas"))

"""Whether MLX compiles on a CPU.

MLX writes C++ into the system's temporary folder and runs ``g++`` on it. It asks for ``g++ --version`` once, at the
first compiled call, and without an answer it runs eager and does not say so. So a small function is compiled, and what
it leaves behind in a folder of this process alone is the proof.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "tf-serve-"


@dataclass(frozen=True, slots=True)
class Compiling:
    """Whether functions are compiled.

    Attributes:
        works: whether they are.
        why_not: a few words for the start-up line, empty where they are.
        compiler: the compiler's name and version, empty where none is used.
    """

    works: bool
    why_not: str = ""
    compiler: str = ""


def private_folder() -> Path:
    """A temporary folder for this process's compiled libraries, removed at exit.

    Others could write into the shared one, and MLX loads whatever bears the right name there. Folders of processes
    that were killed are removed too.
    """
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _lock(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TMPDIR"] = str(folder)
    return folder


def _lock(folder: Path) -> bool:
    """Lock a folder for as long as this process lives; ``False`` where another process holds it."""
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    return True


def _sweep(shared: Path) -> None:
    for lock in shared.glob(f"{_PREFIX}*/lock"):
        folder = lock.parent
        with contextlib.suppress(OSError):  # another user's, or gone by now
            found = lock.stat()
            new = time.time() - found.st_mtime < 60  # its owner may not have locked it yet
            if not new and found.st_uid == os.getuid() and _lock(folder):
                shutil.rmtree(folder, ignore_errors=True)


def try_on_cpu(folder: Path) -> Compiling:
    """Compile a small function on the CPU, and turn compiling off where that fails."""
    import mlx.core as mx

    mx.enable_compile()
    try:
        with mx.stream(mx.cpu):
            mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + 1)(mx.ones((2,))))
    except RuntimeError:  # the compiler is there and fails, for example without its headers
        mx.disable_compile()
        return Compiling(False, "the C++ compiler fails")
    if any(folder.rglob("*.so")):
        return Compiling(True, compiler=_compiler())
    mx.disable_compile()
    return Compiling(False, "no C++ compiler" if shutil.which("g++") is None else "MLX does not compile")


def _compiler() -> str:
    said = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=False)
    return said.stdout.partition("\n")[0]

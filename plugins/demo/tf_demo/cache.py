"""Folders that are made once, whole, and then only read."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tf_plugins.types import Progress

MANIFEST = "complete.json"


def complete(folder: Path) -> bool:
    """Whether every file that `build_once` left in `folder` is there at its full size."""
    try:
        sizes: dict[str, int] = json.loads((folder / MANIFEST).read_bytes())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def build_once(folder: Path, fill: Callable[[Path], None], progress: Progress) -> Path:
    """Return `folder`, filling it first unless it is complete.

    `fill` writes into a folder beside it, which takes the name only when everything is on disk: whatever
    stops it, the next call starts afresh. Processes that want the same folder wait for one another.

    Raises:
        OSError: the cache cannot be written.
        Exception: whatever `fill` raises.
    """
    if complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, progress):
        if not complete(folder):
            partial = folder.with_name(folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                fill(partial)
                _seal(partial)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)  # a disk that it filled has room again
                raise
            shutil.rmtree(folder, ignore_errors=True)  # one that was damaged since
            partial.replace(folder)
    return folder


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the folder's lock, which the system drops with the process."""
    with folder.with_name(folder.name + ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process to make {folder.name}", 0.0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _seal(folder: Path) -> None:
    """List the files with their sizes, and see them all to the disk before the folder gets its name."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps(sizes, indent=1) + "\n")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())

"""Where files that can be made again are kept."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["cache_folder", "write_whole"]


def cache_folder() -> Path:
    """The folder for verdicts and made checkpoints; it may not exist yet.

    TF_CACHE_DIR, else ``tf-plugins`` in XDG_CACHE_HOME, else in ``~/.cache``.
    """
    if chosen := os.environ.get("TF_CACHE_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tf-plugins"


def write_whole(path: Path, text: str) -> None:
    """Write a file in whole or not at all, its folder too where there is none; ``OSError`` where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise

"""Where files that can be made again are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """The folder for verdicts and made checkpoints; it may not exist yet.

    TF_CACHE_DIR, else ``tf-plugins`` in XDG_CACHE_HOME, else in ``~/.cache``.
    """
    if chosen := os.environ.get("TF_CACHE_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tf-plugins"

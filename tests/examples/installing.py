"""Distributions installed by pip into a folder of their own, and commands that see them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def pip_install(target: Path, *sources: Path) -> None:
    """``pip install SOURCE...`` into ``target``, without a network."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def entry_points(target: Path, distribution: str, text: str, group: str = "tf_plugins") -> None:
    """A distribution that consists of entry points alone."""
    folder = target / f"{distribution.replace('-', '_')}-0.1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n")
    (folder / "entry_points.txt").write_text(f"[{group}]\n{text}\n")


def bytes_model(target: Path) -> None:
    """The model of bytes as an installed plugin, so that a whole ``tf-serve`` starts in a second or two."""
    entry_points(target, "tf-bytes", "bytes = tf_host.testing.family:BytesPlugin")


def environment(target: Path, cache: Path) -> dict[str, str]:
    """Variables for a process that finds what was installed into ``target``, and no example in the checkout."""
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(target), *inherited]),
        "TF_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(*command: str | Path, cwd: Path, env: dict[str, str], status: int = 0) -> str:
    """Output of ``python COMMAND...``, both streams, once it ended with ``status``."""
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    assert done.returncode == status, f"{words} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout

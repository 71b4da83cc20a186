"""Folders of compiled libraries that killed servers left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tf_host.device import compiling

HOLD = """
import sys, tempfile
from pathlib import Path
from tf_host.device.compiling import private_folder
tempfile.tempdir = sys.argv[1]
print(private_folder(), flush=True)
sys.stdin.read()
"""


def age(folder: Path) -> None:
    before = time.time() - 3600
    os.utime(folder / "lock", (before, before))


def test_only_folders_of_dead_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    held = []
    for _ in range(2):
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        held.append((holder, Path(holder.stdout.readline().strip())))
    (killed, dead), (living, alive) = held
    new = tmp_path / "tf-serve-new"
    new.mkdir()
    (new / "lock").touch()
    other = tmp_path / "others"
    other.mkdir()
    (other / "lock").touch()
    with killed, living:
        killed.kill()
        killed.wait()
        for folder in (dead, alive, other):
            age(folder)
        mine = compiling.private_folder()
        assert not dead.exists()
        assert alive.exists()
        assert new.exists()
        assert other.exists()
        assert os.environ["TMPDIR"] == str(mine)
        living.communicate("")
    assert not alive.exists()

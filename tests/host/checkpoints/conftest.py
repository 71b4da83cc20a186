"""A family that recognises folders by config.json, and checkpoint folders without weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tf_plugins.types import Checkpoint


class FakeFamily:
    """Recognises one model_type; ``reads`` lists what it read, in order."""

    def __init__(self, name: str, kind: str | None = None, drafter: str | None = None) -> None:
        self.name = name
        self.kind = kind or name
        self.drafter = drafter
        self.reads: list[tuple[str, str, str | None]] = []

    def recognises(self, folder: Path) -> bool:
        try:
            return bool(json.loads((folder / "config.json").read_text())["model_type"] == self.kind)
        except (OSError, ValueError, KeyError):
            return False

    def read(self, folder: Path, role: str, name: str | None = None) -> Checkpoint:
        self.reads.append((folder.name, role, name))
        return Checkpoint(
            folder=folder,
            name=name or folder.name,
            family=self.name,
            roles=frozenset({"target", "drafter"}),
            context=8192,
            vocab=100,
            dtype="bfloat16",
            weight_bytes=1,
            kv_bytes=1,
            weights_key="k",
            drafter=self.drafter,
        )


@pytest.fixture
def make_family() -> type[FakeFamily]:
    return FakeFamily


@pytest.fixture
def make_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a checkpoint folder below the current directory, which is the test's own."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, kind: str | None = "llama") -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        if kind is not None:
            (folder / "config.json").write_text(json.dumps({"model_type": kind}))
        return folder

    return make

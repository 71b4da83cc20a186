"""Distributions with plugins, installed for one test: real metadata, real imports."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

_numbers = itertools.count()

PREAMBLE = """
from pydantic import BaseModel
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import NamedCheckpoint, Refusal
"""


class Install(Protocol):
    def __call__(self, code: str, *, distribution: str = ..., version: str = ..., entries: str = ...) -> str:
        """Install a distribution whose module holds ``code``; returns the module's name."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    modules: list[str] = []

    def put(
        code: str, *, distribution: str = "tf-plugin-mine", version: str = "1.2", entries: str = "mine = {module}:Mine"
    ) -> str:
        module = f"installed_{next(_numbers)}"
        folder = tmp_path / module
        metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{module}.py").write_text(PREAMBLE + textwrap.dedent(code))
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text("[tf_plugins]\n" + entries.format(module=module) + "\n")
        monkeypatch.syspath_prepend(str(folder))
        modules.append(module)
        return module

    yield put
    for module in modules:
        sys.modules.pop(module, None)

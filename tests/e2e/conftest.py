"""Servers of the demo pair that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import Client, serving


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for server logs."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="session")
def drafted(demo_folders: tuple[Path, Path], logs: Path) -> Iterator[Client]:
    """The demo target with its drafter, two lanes."""
    with serving("--family", "llama", "--drafter", "--parallel", "2", log=logs / "drafted.log") as client:
        yield client


@pytest.fixture(scope="session")
def undrafted(demo_folders: tuple[Path, Path], logs: Path) -> Iterator[Client]:
    """The same server without a drafter."""
    with serving("--family", "llama", "--parallel", "2", log=logs / "undrafted.log") as client:
        yield client

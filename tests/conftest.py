"""One backend a process: stock MLX, MKL in strict mode, plain MKL, no C++ compiler, or whatever MLX is installed for.

``TF_TEST_BACKEND`` picks it (``stock`` by default). The matrix library is loaded here, before any test imports MLX. All
but ``gpu`` compute on the CPU, on machines with a GPU too, and so do the servers that tests start.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tf_host.device import prepare
from tf_host.settings import ServerSettings
from tf_plugins.types import Device

BACKEND = os.environ.get("TF_TEST_BACKEND", "stock")
_BLAS = {"stock": "none", "mkl": "mkl", "mkl-plain": "mkl-plain", "nocxx": "none", "gpu": "none"}

if BACKEND not in _BLAS:
    raise pytest.UsageError(f"TF_TEST_BACKEND must be one of {', '.join(_BLAS)}, not {BACKEND!r}")

os.environ["TF_DEVICE"] = "auto" if BACKEND == "gpu" else "cpu"
DEVICE = prepare(ServerSettings(cpu_blas=_BLAS[BACKEND], device=os.environ["TF_DEVICE"]))


@pytest.fixture(scope="session")
def backend() -> str:
    """Name of the backend that this process runs on."""
    return BACKEND


@pytest.fixture(scope="session")
def device() -> Device:
    """The prepared device."""
    return DEVICE


@pytest.fixture(scope="session")
def demo_folders() -> tuple[Path, Path]:
    """Folders of the demo target and drafter, made on first use."""
    from tf_demo import pair

    def quiet(doing: str, done: float) -> None:
        pass

    return pair.target(quiet), pair.drafter(quiet)


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for verdicts that the tests of this process share."""
    return tmp_path_factory.mktemp("verdicts")

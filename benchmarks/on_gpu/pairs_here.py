"""The folders that a GPU bench serves, made where they are not there yet."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.laid import register
from benchmarks.pairs import SHAPES, Small, write

CONTEXT = 32_768


def folders(work: Path) -> dict[str, Path]:
    """Folders by name: targets ``33B`` and ``8B`` with the demo target's text; drafters ``12M``, ``1B`` and ``3B``.

    They are sparse: their tensors are made at load, on the device.
    """
    from tf_demo import pair

    def quiet(doing: str, done: float) -> None:
        return

    target, drafter = Small(pair.target(quiet)), Small(pair.drafter(quiet))
    sources = {"33B": target, "8B": target, "3B": drafter, "1B": drafter, "12M": drafter}
    made = {}
    for name, small in sources.items():
        folder = work / "pairs" / f"laid-{name}"
        if not (folder / "model.safetensors.index.json").exists():
            write(small, folder, SHAPES[name], CONTEXT, seed=0, dense=None)
        made[name] = folder
    return made


def environment(work: Path) -> dict[str, str]:
    """Environment variables of a process that is to know the plugin ``laid``."""
    path = [str(register(work / "plugin")), str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(part for part in path if part)}

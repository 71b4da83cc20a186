"""The demo pair's two checkpoint folders, made in the cache on first use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tf_demo import cache, sources
from tf_plugins import Refused
from tf_plugins.folders import cache_folder
from tf_plugins.types import Progress, Refusal

FORMAT = 1  # one more whenever the same sources give other files
KEY = f"{FORMAT}-{sources.GGUF_SHA256[:8]}-{sources.DRAFTER_SHA256[:8]}"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def target(progress: Progress) -> Path:
    """Folder of SmolLM2-135M-Instruct in bfloat16. Raises Refused."""

    def fill(folder: Path) -> None:
        from tf_demo.convert import convert  # a server of another model never needs the GGUF reader

        convert(sources.gguf(), folder, progress)

    return _folder("smollm2-135m-instruct", fill, progress)


def drafter(progress: Progress) -> Path:
    """Folder of the demo drafter, the target's tokenizer files beside its weights. Raises Refused."""

    def fill(folder: Path) -> None:
        weights, shared = sources.drafter_weights(), target(progress)
        shutil.copyfile(weights, folder / "model.safetensors")
        shutil.copyfile(sources.DRAFTER / "config.json", folder / "config.json")
        for name in TOKENIZER_FILES:
            shutil.copyfile(shared / name, folder / name)

    return _folder("demo-drafter", fill, progress)


def _folder(name: str, fill: Callable[[Path], None], progress: Progress) -> Path:
    folder = cache_folder() / "demo" / KEY / name
    try:
        return cache.build_once(folder, fill, progress)
    except OSError as error:
        raise Refused(
            Refusal(
                "demo_cache_unwritable",
                f"the demo model cannot be made in {folder}: {error.strerror or error}",
                "name a folder with 300 MB of room in TF_CACHE_DIR",
            )
        ) from error

"""The Llama family, as the host sees it."""

from __future__ import annotations

import json
from pathlib import Path

from tf_llama.reading import read_checkpoint, read_config
from tf_plugins.types import Checkpoint, Device, Model, Progress, Role

__all__ = ["LlamaFamily"]


class LlamaFamily:
    """Safetensors checkpoints of ``model_type: llama``."""

    name = "llama"

    def recognises(self, folder: Path) -> bool:
        """Whether config.json says so; an adapter's folder counts, so that it is refused by name."""
        try:
            raw = json.loads((folder / "config.json").read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return (folder / "adapter_config.json").exists() and not (folder / "config.json").exists()
        return isinstance(raw, dict) and raw.get("model_type") == "llama"

    def read(self, folder: Path, role: Role, name: str | None = None) -> Checkpoint:
        """The facts of a checkpoint; ``Refused`` for what is not served. No weight is read."""
        return read_checkpoint(folder, role, name or folder.name)

    def refuse(self, folder: Path, role: Role, name: str | None = None) -> None:
        """``Refused`` for what config.json alone shows is not served."""
        read_config(folder, role, name or folder.name)

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
        """Load a target on the engine thread."""
        # Imported here: mlx must not be imported before the host has prepared the device.
        from tf_llama.model import LlamaModel

        return LlamaModel.load(checkpoint, device, progress)

    def load_tokenizer(self, checkpoint: Checkpoint) -> None:
        """The host's own tokenizer reading serves every Llama."""
        return

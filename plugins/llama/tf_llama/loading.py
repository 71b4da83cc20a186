"""Loads a checkpoint through mlx-lm, lazily: nothing is read until a form packs it."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

from tf_llama.config import LlamaConfig
from tf_llama.reading import is_tied, weight_files
from tf_plugins.types import Checkpoint

__all__ = ["load_module"]


def load_module(checkpoint: Checkpoint) -> tuple[Any, LlamaConfig]:
    """mlx-lm's ``llama.Model`` of a checkpoint, its arrays not read yet, and the parsed config."""
    config = LlamaConfig.parse(checkpoint.config, checkpoint.folder / "config.json")
    tensors = {name: entry for file in weight_files(checkpoint.folder) for name, entry in file.tensors.items()}
    overrides = config.for_mlx_lm(is_tied(config, tensors))
    module, _ = _load_model()(checkpoint.folder, lazy=True, strict=True, model_config=overrides)
    return module, config


def _load_model() -> Callable[..., Any]:
    """mlx-lm's loader. Its import lowers the limit of open files for good, which a server cannot have."""
    kept = resource.setrlimit
    resource.setrlimit = lambda which, limits: None if which == resource.RLIMIT_NOFILE else kept(which, limits)
    try:
        from mlx_lm.utils import load_model
    finally:
        resource.setrlimit = kept
    return load_model

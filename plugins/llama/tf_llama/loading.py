"""A checkpoint as mlx-lm's module, lazily: nothing is read until a form packs it."""

from __future__ import annotations

import resource
from typing import Any, cast

from tf_llama.config import LlamaConfig
from tf_llama.reading import is_tied, weight_files
from tf_plugins.types import Checkpoint

__all__ = ["load_module"]


def load_module(checkpoint: Checkpoint) -> tuple[Any, LlamaConfig]:
    """mlx-lm's ``llama.Model`` of a checkpoint, its arrays not read yet, and the parsed config.

    The files and the tensors in them are those that reading looked at. mlx-lm's own loader takes the folder for a
    pattern, in which ``[`` and ``*`` stand for others, and fails at buffers that old checkpoints store.
    """
    # Imported here: mlx must not be imported before the host has prepared the device.
    import mlx.core as mx

    config = LlamaConfig.parse(checkpoint.config, checkpoint.folder / "config.json")
    files = weight_files(checkpoint.folder)
    tied = is_tied(config, {name: entry for file in files for name, entry in file.tensors.items()})
    llama = _llama()
    module = llama.Model(llama.ModelArgs.from_dict({**checkpoint.config, **config.for_mlx_lm(tied)}))
    stored: dict[str, mx.array] = {}
    for file in files:
        stored |= cast("dict[str, mx.array]", mx.load(str(file.path)))
    module.eval()
    module.load_weights([(name, stored[name]) for name in config.tensors(tied)])
    return module, config


def _llama() -> Any:
    """mlx-lm's Llama. Its import lowers the limit of open files for good, which a server cannot have."""
    kept = resource.setrlimit
    resource.setrlimit = lambda which, limits: None if which == resource.RLIMIT_NOFILE else kept(which, limits)
    try:
        from mlx_lm.models import llama
    finally:
        resource.setrlimit = kept
    return llama

"""Loads a laid checkpoint (``pairs``) without reading it: its tensors are made on the device, filler included.

A 33B's bytes are neither written nor read then, and a server of it is up in seconds. ``LaidPlugin`` takes the place of
the plugin ``llama`` in a server of the bench; ``register`` makes it known to such a server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pairs import Bits, Indices, Shape, Small, Tensor, lay
from tf_llama.family import LlamaFamily
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Checkpoint, Device, Family, Progress

PLUGINS = ("laid", "llama-budget", "copy", "llama-drafter", "demo")
"""For ``--use-plugins`` of a server that serves laid checkpoints."""


def module(folder: Path) -> Any:
    """mlx-lm's ``llama.Model`` of a laid folder, its tensors lazy."""
    from mlx_lm.models import llama

    config = json.loads((folder / "config.json").read_text("utf-8"))
    made = config["laid"]
    model = llama.Model(llama.ModelArgs.from_dict(config))  # type: ignore[no-untyped-call]
    tensors = lay(Small(Path(made["from"])), Shape.of(config))
    model.load_weights([(tensor.name, array(tensor, made["seed"])) for tensor in tensors])
    return model


def array(tensor: Tensor, seed: int) -> Any:
    """A tensor as a lazy bfloat16 array of MLX."""
    import mlx.core as mx

    if tensor.filler:
        made = mx.random.normal(tensor.shape, scale=tensor.filler, key=_key(seed, tensor.name)).astype(mx.bfloat16)
        if tensor.lines is not None:
            free = np.ones(tensor.shape[tensor.axis], bool)
            free[tensor.lines] = False
            mask = mx.array(free)
            made = mx.where(mask[:, None] if tensor.axis == 0 else mask, made, mx.array(0.0, mx.bfloat16))
    else:
        made = mx.full(tensor.shape, tensor.rest, mx.bfloat16)
    if tensor.block is not None:
        made[tuple(_index(indices, axis, tensor) for axis, indices in enumerate(tensor.at))] = mx.array(
            tensor.block()
        ).astype(mx.bfloat16)
    return made


def bits(tensor: Tensor, seed: int) -> Bits:
    """The same tensor's bits."""
    import mlx.core as mx

    return np.array(array(tensor, seed).view(mx.uint16))


def _index(indices: Indices, axis: int, tensor: Tensor) -> Any:
    import mlx.core as mx

    first, last = int(indices[0]), int(indices[-1])
    if len(indices) == last - first + 1:
        return slice(first, last + 1)
    return mx.array(indices)


def _key(seed: int, name: str) -> Any:
    import mlx.core as mx

    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return mx.array(np.frombuffer(digest, "<u4").copy())


class LaidFamily(LlamaFamily):
    """The Llama family, with laid checkpoints made in place of read ones; any other is loaded as ever."""

    def __init__(self) -> None:
        from tf_llama import loading
        from tf_llama.config import LlamaConfig

        # Targets and drafters of the family are all loaded through this one function.
        stock = loading.load_module

        def load_module(checkpoint: Checkpoint) -> Any:
            if "laid" not in checkpoint.config:
                return stock(checkpoint)
            config = LlamaConfig.parse(checkpoint.config, checkpoint.folder / "config.json")
            return module(checkpoint.folder), config

        self._load_module = load_module

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Any:
        """Load a target on the engine thread."""
        from tf_llama import loading

        loading.load_module = self._load_module
        return super().load(checkpoint, device, progress)


class LaidPlugin(Plugin):
    """Serves laid checkpoints."""

    api_version = 1

    @hookimpl
    def families(self) -> Sequence[Family]:
        return [LaidFamily()]


def register(folder: Path) -> Path:
    """Make ``folder`` a place on PYTHONPATH in which servers find the plugin ``laid``; returns it."""
    info = folder / "tf_bench_laid-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tf-bench-laid\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[tf_plugins]\nlaid = benchmarks.laid:LaidPlugin\n")
    return folder

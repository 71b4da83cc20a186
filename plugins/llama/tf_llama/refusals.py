"""Every reason why the family does not serve a checkpoint, as one sentence and a way out."""

from __future__ import annotations

from pathlib import Path

from tf_llama.roles import Listed
from tf_plugins.types import Refusal

_CONVERT = "serve the bf16, f16 or f32 release"


def unreadable(path: Path, why: str) -> Refusal:
    """A file that is missing, damaged or closed to us."""
    return Refusal("unreadable_checkpoint", f"{path} cannot be read: {why}", "fetch the checkpoint again")


def bad_config(path: Path, why: str) -> Refusal:
    """A config.json that contradicts itself."""
    return Refusal("bad_config", f"{path} does not describe a Llama: {why}", "fetch the checkpoint again")


def not_llama(folder: Path, model_type: object) -> Refusal:
    """Another architecture."""
    return Refusal(
        "not_llama",
        f"{folder} is a model of type {model_type!r}, and the family llama serves type 'llama'",
        "choose another --family, or a Llama checkpoint",
        param="model",
    )


def quantized(name: str, what: str, role: str) -> Refusal:
    """Quantized weights."""
    if role == "drafter":
        return Refusal(
            "quantized_drafter",
            f"{name} is a quantized drafter ({what}), and drafters are served as bf16, f16 or f32",
            "give the drafter's bf16 release with --drafter DIR; --drafter-bits is not read",
            param="drafter",
        )
    return Refusal(
        "quantized",
        f"{name} has quantized weights ({what}), and the family llama serves bf16, f16 and f32",
        _CONVERT,
        param="model",
    )


def dtype(name: str, tensor: str, found: str) -> Refusal:
    """A dtype that is neither served nor a known quantization."""
    return Refusal(
        "unserved_dtype",
        f"{name} stores {tensor} as {found}, and the family llama serves bf16, f16 and f32",
        _CONVERT,
        param="model",
    )


def unserved(name: str, what: str, hint: str) -> Refusal:
    """Something in config.json that the family does not compute."""
    return Refusal("unserved_layout", f"{name} {what}", hint, param="model")


def lora(folder: Path) -> Refusal:
    """A folder that holds an adapter."""
    return Refusal(
        "lora",
        f"{folder} is a LoRA adapter, and adapters are not served",
        "fuse it into its base model first: mlx_lm.fuse --model BASE --adapter-path DIR",
        param="model",
    )


def no_weights(folder: Path) -> Refusal:
    """A folder without safetensors files that mlx-lm reads."""
    return Refusal(
        "no_weights",
        f"{folder} has no model*.safetensors file",
        "give the folder of a safetensors checkpoint, or its hub name",
        param="model",
    )


def damaged(path: Path, why: str) -> Refusal:
    """A safetensors file whose header or size is wrong."""
    return Refusal("damaged_weights", f"{path} is damaged: {why}", "fetch the file again")


def wrong_tensors(name: str, why: str) -> Refusal:
    """Tensors that do not fit the config."""
    return Refusal(
        "wrong_tensors", f"the weights of {name} do not fit its config.json: {why}", "fetch the checkpoint again"
    )


def drafter_only(name: str, listed: Listed | None) -> Refusal:
    """A checkpoint that is served beside a target alone."""
    return Refusal(
        "drafter_only",
        f"{_taken_for(name, listed)} served as a drafter only",
        f"serve a target and give this one with --drafter{_renamed(name, listed)}",
        param="model",
    )


def target_only(name: str, listed: Listed | None = None) -> Refusal:
    """A checkpoint that is no drafter."""
    return Refusal(
        "target_only",
        f"{_taken_for(name, listed)} served as a target only",
        f"give a smaller Llama on the same tokenizer with --drafter{_renamed(name, listed)}",
        param="drafter",
    )


def _taken_for(name: str, listed: Listed | None) -> str:
    """A checkpoint with what it was known by, where that isn't its own name."""
    return f"{name} is" if listed is None or listed.named(name) else f"{name} has the shape of {listed.name}, which is"


def _renamed(name: str, listed: Listed | None) -> str:
    """The way out for whoever made a model of that shape, where the folder's name told."""
    if listed is None or listed.alone or listed.named(name):
        return ""
    return "; if this is another model of that shape, give its folder another name"

"""Reads a checkpoint's facts and refuses what is not served, before any weight is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from tf_llama import generation, refusals, roles
from tf_llama.config import LlamaConfig, read_json, rope_fields
from tf_llama.contents import content_digest
from tf_llama.headers import Tensor, WeightFile, read_header
from tf_plugins import Refused
from tf_plugins.types import Checkpoint, Refusal, Role

__all__ = ["DTYPES", "is_tied", "read_checkpoint", "read_config", "weight_files"]

DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
"""Served dtypes by their safetensors names."""

_INTEGERS = ("U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64")
_PACKED = (*_INTEGERS, "F8_", "F6_", "F4")
"""How dtypes begin in which quantized weights are stored."""

_QUANTIZED_SUFFIXES = (
    ".scales",
    ".biases",
    ".qweight",
    ".qzeros",
    ".weight_scale",
    ".weight_scale_inv",
    ".weight_packed",
)
_ADAPTERS = ("adapter_config.json", "adapters.safetensors", "adapter_model.safetensors")

_BUFFERS = (".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached")
"""What old checkpoints store although the config says it; integers and booleans beside the weights are buffers too."""


def read_config(folder: Path, role: Role, name: str) -> tuple[Mapping[str, Any], LlamaConfig, frozenset[Role]]:
    """config.json, what it says, and the roles that such a checkpoint has; weights need not be there.

    Raises:
        Refused: it is not served, or not in this role.
    """
    if not (folder / "config.json").exists() and any((folder / one).exists() for one in _ADAPTERS):
        raise Refused(refusals.lora(folder))
    raw = read_json(folder / "config.json")
    _refuse_config(raw, folder, name, role)
    config = LlamaConfig.parse(raw, folder / "config.json")
    qualified = roles.roles_of(name, config.shape, config.vocab)
    if role not in qualified:
        listed = roles.listed(name, config.shape, config.vocab)
        raise Refused((refusals.drafter_only if role == "target" else refusals.target_only)(name, listed))
    return raw, config, qualified


def read_checkpoint(folder: Path, role: Role, name: str) -> Checkpoint:
    """A checkpoint's facts.

    Raises:
        Refused: it is not served, or not in this role.
    """
    raw, config, qualified = read_config(folder, role, name)
    files = weight_files(folder)
    tensors = _join(files, name)
    expected = config.tensors(is_tied(config, tensors))
    _refuse_dtypes(tensors, expected, name, role)
    used = _match(tensors, expected, name, role)
    generation_config = generation.read_generation_config(folder)
    return Checkpoint(
        folder=folder,
        name=name,
        family="llama",
        roles=qualified,
        context=config.context,
        vocab=config.vocab,
        dtype=_main_dtype(used),
        weight_bytes=sum(tensor.nbytes for tensor in used.values()),
        kv_bytes=config.layers * 2 * config.kv_heads * config.head_dim * 2,
        weights_key=_weights_key(raw, files, role),
        drafter=roles.drafter_for(name, config.shape, config.vocab),
        config=raw,
        sampling=generation.sampling(generation_config),
        end_ids=generation.end_ids(raw, generation_config),
    )


def weight_files(folder: Path) -> list[WeightFile]:
    """Headers of the files that mlx-lm loads.

    Raises:
        Refused: there is none, the index names one that is missing, or one is damaged.
    """
    paths = sorted(folder.glob("model*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.exists():
        mapped = read_json(index).get("weight_map")
        named = sorted(set(mapped.values())) if isinstance(mapped, dict) else []
        for file in named:
            if not (folder / str(file)).exists():
                raise Refused(refusals.unreadable(folder / str(file), "it is missing, and the index names it"))
    if not paths:
        adapter = any((folder / one).exists() for one in _ADAPTERS)
        raise Refused(refusals.lora(folder) if adapter else refusals.no_weights(folder))
    return [read_header(path) for path in paths]


def is_tied(config: LlamaConfig, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the head is the embedding; where config.json does not say, a stored head decides."""
    return config.tied if config.tied is not None else "lm_head.weight" not in tensors


def _refuse_config(raw: Mapping[str, Any], folder: Path, name: str, role: Role) -> None:
    if raw.get("model_type") != "llama":
        raise Refused(refusals.not_llama(folder, raw.get("model_type")))
    for key in ("quantization", "quantization_config"):
        if raw.get(key):
            raise Refused(refusals.quantized(name, f"{key} in config.json", role))
    if (folder / "hf_quant_config.json").exists():
        raise Refused(refusals.quantized(name, "hf_quant_config.json", role))
    full = "give a Llama with full attention in every layer"
    layer_types = raw.get("layer_types") or []
    if not isinstance(layer_types, list):
        raise Refused(refusals.bad_config(folder / "config.json", f"layer_types is {layer_types!r}, not a list"))
    if any(kind != "full_attention" for kind in layer_types):
        raise Refused(refusals.unserved(name, "has layers of sliding attention (layer_types in config.json)", full))
    # A Llama slides by its layer types alone. The window is left over, unless the config is another model's.
    if raw.get("sliding_window") is not None and raw.get("use_sliding_window", True) and (other := _not_llamas(raw)):
        what = f"has sliding attention (sliding_window in config.json, whose architectures name {other!r})"
        raise Refused(refusals.unserved(name, what, full))
    kind = rope_fields(raw)[1]
    if kind not in ("default", "linear", "llama3"):
        what = f"scales rope by {kind!r}, and the family llama serves the kinds default, linear and llama3"
        raise Refused(refusals.unserved(name, what, "give a checkpoint with another rope_scaling"))
    if raw.get("rope_traditional"):
        raise Refused(refusals.unserved(name, "pairs rope dimensions the traditional way", "give the hub release"))
    if any(found.get("partial_rotary_factor") not in (None, 1, 1.0) for found in (raw, rope_fields(raw)[0])):
        raise Refused(refusals.unserved(name, "rotates a part of each head (partial_rotary_factor)", "give a Llama"))
    if raw.get("hidden_act", "silu") not in ("silu", "swish"):
        what = f"uses {raw['hidden_act']!r} in its MLP, and the family llama serves 'silu'"
        raise Refused(refusals.unserved(name, what, "give a Llama"))
    if raw.get("model_file"):
        raise Refused(refusals.unserved(name, "brings code of its own (model_file in config.json)", "give a Llama"))


def _not_llamas(raw: Mapping[str, Any]) -> object:
    """An architecture that the config names and that is no Llama's; ``None`` where there is none."""
    named = raw.get("architectures")
    architectures = named if isinstance(named, list) else [named] if named else []
    return next((one for one in architectures if not str(one).startswith("Llama")), None)


def _join(files: Sequence[WeightFile], name: str) -> dict[str, Tensor]:
    joined: dict[str, Tensor] = {}
    for file in files:
        for tensor, entry in file.tensors.items():
            if tensor in joined:
                why = f"two files hold {tensor}; the second is {file.path.name}"
                raise Refused(refusals.wrong_tensors(name, why))
            joined[tensor] = entry
    return joined


def _refuse_dtypes(tensors: Mapping[str, Tensor], expected: Container[str], name: str, role: Role) -> None:
    for tensor, entry in tensors.items():
        weight = tensor in expected
        if tensor.endswith(_QUANTIZED_SUFFIXES) or (weight and entry.dtype.startswith(_PACKED)):
            raise Refused(refusals.quantized(name, f"{tensor} is stored as {entry.dtype}", role))
        # MLX reads no file with a dtype that it does not know, in a buffer either.
        if entry.dtype not in DTYPES and (weight or not _is_whole(entry)):
            raise Refused(refusals.dtype(name, tensor, entry.dtype))


def _match(
    tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], name: str, role: Role
) -> dict[str, Tensor]:
    """The tensors that are served; ``Refused`` where they are not what the config describes."""
    for tensor, shape in expected.items():
        if tensor not in tensors:
            raise Refused(_missing(tensor, tensors, name, role))
        if tensors[tensor].shape != shape:
            why = f"{tensor} has shape {list(tensors[tensor].shape)}, and the config says {list(shape)}"
            raise Refused(refusals.wrong_tensors(name, why))
    for tensor, entry in sorted(tensors.items()):
        # A head that is stored beside a tied one is the embedding once more.
        known = tensor in expected or tensor == "lm_head.weight" or tensor.endswith(_BUFFERS)
        if not known and not _is_whole(entry):
            raise Refused(refusals.wrong_tensors(name, f"{tensor} is no part of it"))
    return {tensor: tensors[tensor] for tensor in expected}


def _missing(tensor: str, tensors: Mapping[str, Tensor], name: str, role: Role) -> Refusal:
    """A weight that is not there, or is there in a packed form under other names."""
    module = tensor.rpartition(".")[0]
    for other, entry in tensors.items():
        if other.startswith(f"{module}.") and entry.dtype in _INTEGERS:
            return refusals.quantized(name, f"{other} is stored as {entry.dtype}", role)
    return refusals.wrong_tensors(name, f"{tensor} is missing")


def _is_whole(entry: Tensor) -> bool:
    """Whether it holds whole numbers or booleans, which are no weights."""
    return entry.dtype in (*_INTEGERS, "BOOL")


def _main_dtype(tensors: Mapping[str, Tensor]) -> str:
    """The dtype of most stored bytes; mixed checkpoints are served in it."""
    by_dtype: dict[str, int] = {}
    for tensor in tensors.values():
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.nbytes
    return DTYPES[max(by_dtype, key=lambda one: by_dtype[one])]


def _weights_key(raw: Mapping[str, Any], files: Sequence[WeightFile], role: Role) -> str:
    """Digest of config and weights; of a drafter's weights the headers alone, since nothing is kept under its key."""
    digest = hashlib.sha256(json.dumps(raw, sort_keys=True).encode())
    for file in files:
        digest.update(f"{file.path.name} {file.size} ".encode())
        digest.update(file.header)
        if role == "target":
            try:
                digest.update(content_digest(file.path).encode())
            except OSError as error:
                raise Refused(refusals.damaged(file.path, error.strerror or str(error))) from error
    return digest.hexdigest()

"""A Llama in a GGUF file, read as a Hugging Face checkpoint would name and lay it out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize
from numpy.typing import NDArray

WHOLE_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


@dataclass(frozen=True)
class Tensor:
    """One weight of the checkpoint, still packed in the file: `read` dequantises it."""

    name: str
    shape: tuple[int, ...]
    heads: int  # > 0 where the rows are permuted for rope, by head
    packed: ReaderTensor

    def read(self) -> NDArray[np.float32]:
        """The weight as float32, shaped `shape`, in the Hugging Face row order."""
        rows = dequantize(self.packed.data, self.packed.tensor_type).astype(np.float32, copy=False)
        return unpermute(rows, self.heads) if self.heads else rows


class LlamaFile:
    """The facts, tokenizer fields and weights of one Llama GGUF file.

    Raises:
        ValueError: the file is no GGUF, or holds another architecture or an unknown tensor.
    """

    def __init__(self, path: Path) -> None:
        self._reader = GGUFReader(path)
        family = self.field("general.architecture")
        if family != "llama":
            raise ValueError(f"{path.name} holds a {family!r} model, not a Llama")

    def field(self, name: str) -> Any:
        """The value of a metadata field: a number, a string or a list. Raises KeyError."""
        return self._reader.fields[name].contents()

    def config(self) -> dict[str, Any]:
        """`config.json` of the checkpoint, with bfloat16 weights."""
        heads, kv_heads = self.heads()
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.field("llama.embedding_length"),
            "num_hidden_layers": self.field("llama.block_count"),
            "intermediate_size": self.field("llama.feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": self.field("llama.rope.dimension_count"),
            "hidden_act": "silu",
            "rms_norm_eps": _shortest(self.field("llama.attention.layer_norm_rms_epsilon")),
            "vocab_size": self.field("llama.vocab_size"),
            "rope_theta": self.field("llama.rope.freq_base"),
            "max_position_embeddings": self.field("llama.context_length"),
            "tie_word_embeddings": all(tensor.name != "lm_head.weight" for tensor in self.tensors()),
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": self.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.field("tokenizer.ggml.eos_token_id"),
            "pad_token_id": self.field("tokenizer.ggml.padding_token_id"),
            "torch_dtype": "bfloat16",
        }

    def heads(self) -> tuple[int, int]:
        """Query heads and key/value heads."""
        return self.field("llama.attention.head_count"), self.field("llama.attention.head_count_kv")

    def tensors(self) -> Iterator[Tensor]:
        """Every weight, in file order."""
        heads, kv_heads = self.heads()
        permuted = {"attn_q": heads, "attn_k": kv_heads}
        for packed in self._reader.tensors:
            name, kind = _checkpoint_name(packed.name)
            shape = tuple(int(size) for size in reversed(packed.shape))  # GGUF lists the innermost first
            yield Tensor(name, shape, permuted.get(kind, 0), packed)


def unpermute(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo GGUF's rope order of a query or key projection, shaped [heads * size, width].

    GGUF interleaves the two halves of each head (0, n/2, 1, n/2 + 1, ...); checkpoints keep them apart.
    """
    out, width = rows.shape
    return rows.reshape(heads, out // heads // 2, 2, width).swapaxes(1, 2).reshape(out, width)


def _checkpoint_name(name: str) -> tuple[str, str]:
    """The checkpoint's name of a GGUF tensor, and the tensor's kind within its layer."""
    if name in WHOLE_NAMES:
        return WHOLE_NAMES[name], ""
    layer = _LAYER.fullmatch(name)
    if layer is None or layer[2] not in LAYER_NAMES:
        raise ValueError(f"unknown tensor {name!r} in a Llama GGUF file")
    return f"model.layers.{layer[1]}.{LAYER_NAMES[layer[2]]}.weight", layer[2]


def _shortest(value: float) -> float:
    """A float32 read as a Python float, as the shortest decimal that means it (1e-05)."""
    return float(str(np.float32(value)))

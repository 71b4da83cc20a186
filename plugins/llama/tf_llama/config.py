"""What config.json says of a Llama, with the defaults of its format filled in."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tf_llama.refusals import bad_config, unreadable
from tf_plugins import Refused

__all__ = ["LlamaConfig", "Rope", "read_json"]

_LIMIT = 4 << 20
"""Bytes of the largest JSON file that is read."""


_MOST_LAYERS = 4_096
"""The largest Llama has 126."""


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions.

    Attributes:
        kind: how angles are scaled.
        theta: base of the frequencies.
        scaling: the parameters of ``kind``, for mlx-lm; ``None`` for the default kind.
    """

    kind: Literal["default", "linear", "llama3"]
    theta: float
    scaling: Mapping[str, float | str] | None = None


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """A Llama's shape.

    Attributes:
        hidden: numbers a row carries from layer to layer.
        layers: decoder layers.
        mlp: width inside the MLP.
        heads: query heads.
        kv_heads: key and value heads; ``heads`` for MHA.
        head_dim: numbers a head has.
        vocab: rows of the embedding and of the head, padding included.
        eps: of the RMS norms.
        context: positions that the model was made for.
        tied: whether the head is the embedding, or ``None`` where config.json does not say.
        attention_bias: biases on q, k, v and o.
        mlp_bias: biases on gate, up and down.
        rope: rotary positions.
    """

    hidden: int
    layers: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    context: int
    tied: bool | None
    attention_bias: bool
    mlp_bias: bool
    rope: Rope

    @property
    def shape(self) -> tuple[int, int, int, int, int, int]:
        """What tells checkpoints of one architecture apart: hidden, layers, mlp, heads, kv heads, head size."""
        return (self.hidden, self.layers, self.mlp, self.heads, self.kv_heads, self.head_dim)

    @classmethod
    def parse(cls, raw: Mapping[str, Any], where: Path) -> LlamaConfig:
        """The shape in a parsed config.json that ``refusals.refuse_config`` let pass.

        Raises:
            Refused: a number is missing, of the wrong type, or does not fit another one.
        """
        heads = _count(raw, "num_attention_heads", where)
        hidden = _count(raw, "hidden_size", where)
        head_dim = _count(raw, "head_dim", where, hidden // heads)
        kv_heads = _count(raw, "num_key_value_heads", where, heads)
        if heads % kv_heads:
            raise Refused(bad_config(where, f"num_key_value_heads {kv_heads} does not divide {heads} heads"))
        if head_dim % 2:
            raise Refused(bad_config(where, f"head_dim {head_dim} is odd"))
        tied = raw.get("tie_word_embeddings")
        return cls(
            hidden=hidden,
            layers=_layers(raw, where),
            mlp=_count(raw, "intermediate_size", where),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocab=_count(raw, "vocab_size", where),
            eps=_number(raw, "rms_norm_eps", where, 1e-6),
            context=_count(raw, "max_position_embeddings", where, 2_048),
            tied=None if tied is None else bool(tied),
            attention_bias=bool(raw.get("attention_bias", False)),
            mlp_bias=bool(raw.get("mlp_bias", False)),
            rope=_rope(raw, where),
        )

    def tensors(self, tied: bool) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all weights, as checkpoints store them."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab, self.hidden),
            "model.norm.weight": (self.hidden,),
        }
        if not tied:
            found["lm_head.weight"] = (self.vocab, self.hidden)
        linears = {
            "self_attn.q_proj": (q, self.hidden, self.attention_bias),
            "self_attn.k_proj": (kv, self.hidden, self.attention_bias),
            "self_attn.v_proj": (kv, self.hidden, self.attention_bias),
            "self_attn.o_proj": (self.hidden, q, self.attention_bias),
            "mlp.gate_proj": (self.mlp, self.hidden, self.mlp_bias),
            "mlp.up_proj": (self.mlp, self.hidden, self.mlp_bias),
            "mlp.down_proj": (self.hidden, self.mlp, self.mlp_bias),
        }
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            for name, (outputs, inputs, bias) in linears.items():
                found[f"{prefix}{name}.weight"] = (outputs, inputs)
                if bias:
                    found[f"{prefix}{name}.bias"] = (outputs,)
            found[f"{prefix}input_layernorm.weight"] = (self.hidden,)
            found[f"{prefix}post_attention_layernorm.weight"] = (self.hidden,)
        return found

    def for_mlx_lm(self, tied: bool) -> dict[str, Any]:
        """Config fields that make mlx-lm read the checkpoint as config.json means it.

        mlx-lm takes a missing ``tie_word_embeddings`` for true and does not read ``rope_parameters``.
        """
        return {
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.eps,
            "max_position_embeddings": self.context,
            "attention_bias": self.attention_bias,
            "mlp_bias": self.mlp_bias,
            "tie_word_embeddings": tied,
            "rope_theta": self.rope.theta,
            "rope_scaling": dict(self.rope.scaling) if self.rope.scaling else None,
            "rope_traditional": False,
            "layer_types": None,
        }


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        Refused: the file is missing, unreadable, too large, or no JSON object.
    """
    try:
        if path.stat().st_size > _LIMIT:
            raise Refused(unreadable(path, f"it is larger than {_LIMIT >> 20} MiB"))
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise Refused(unreadable(path, "it is missing")) from error
    except OSError as error:
        raise Refused(unreadable(path, error.strerror or str(error))) from error
    except (ValueError, RecursionError) as error:
        raise Refused(unreadable(path, "it is not valid JSON")) from error
    if not isinstance(found, dict):
        raise Refused(unreadable(path, "it is not a JSON object"))
    return found


def rope_fields(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The rope parameters under their old or new name, and the rope kind."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        return {}, repr(scaling)
    return scaling, str(scaling.get("rope_type") or scaling.get("type") or "default")


def _rope(raw: Mapping[str, Any], where: Path) -> Rope:
    scaling, kind = rope_fields(raw)
    theta = _number(scaling if "rope_theta" in scaling else raw, "rope_theta", where, 10_000.0)
    if kind == "linear":
        return Rope("linear", theta, {"type": kind, "factor": _number(scaling, "factor", where)})
    if kind == "llama3":
        return Rope(
            "llama3",
            theta,
            {
                "type": kind,
                "factor": _number(scaling, "factor", where),
                "low_freq_factor": _number(scaling, "low_freq_factor", where),
                "high_freq_factor": _number(scaling, "high_freq_factor", where),
                "original_max_position_embeddings": _number(scaling, "original_max_position_embeddings", where),
            },
        )
    return Rope("default", theta)


def _layers(raw: Mapping[str, Any], where: Path) -> int:
    layers = _count(raw, "num_hidden_layers", where)
    if layers > _MOST_LAYERS:
        raise Refused(bad_config(where, f"num_hidden_layers is {layers}, and the most that is taken is {_MOST_LAYERS}"))
    return layers


def _count(raw: Mapping[str, Any], key: str, where: Path, default: int | None = None) -> int:
    value = raw.get(key)
    if value is None:
        value = default
    if value is None:
        raise Refused(bad_config(where, f"{key} is missing"))
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise Refused(bad_config(where, f"{key} is {value!r}, not a count"))
    return value


def _number(raw: Mapping[str, Any], key: str, where: Path, default: float | None = None) -> float:
    value = raw.get(key)
    if value is None:
        value = default
    if value is None:
        raise Refused(bad_config(where, f"{key} is missing"))
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= sys.float_info.max:
        raise Refused(bad_config(where, f"{key} is {value!r}, not a positive number"))
    return float(value)

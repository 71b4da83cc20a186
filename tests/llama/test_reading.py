"""A checkpoint's facts, and every refusal as text, before any weight is read."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.llama.tiny import LLAMA3, checkpoint, config, weights
from tf_llama.family import LlamaFamily
from tf_llama.plugin import LlamaPlugin
from tf_plugins import Refused
from tf_plugins.types import Refusal, RefusesEarly, Role

FAMILY = LlamaFamily()


def refused(folder: Path, role: Role = "target", name: str | None = "tiny") -> Refusal:
    with pytest.raises(Refused) as caught:
        FAMILY.read(folder, role, name)
    refusal = caught.value.refusal
    assert refusal.hint
    assert "\n" not in refusal.reason
    assert not refusal.reason.endswith(".")
    assert not refusal.hint.endswith(".")
    return refusal


def test_the_plugin_gives_the_family() -> None:
    (family,) = LlamaPlugin(None).families()
    assert family.name == "llama"


def test_facts(tmp_path: Path) -> None:
    checkpoint(tmp_path / "tiny-llama", mx.bfloat16, eos_token_id=[2, 7])
    (tmp_path / "tiny-llama" / "generation_config.json").write_text(
        json.dumps({"temperature": 0.6, "top_p": 0.9, "top_k": 40, "eos_token_id": 9, "do_sample": True})
    )
    facts = FAMILY.read(tmp_path / "tiny-llama", "target")
    assert (facts.name, facts.family, facts.context, facts.vocab) == ("tiny-llama", "llama", 640, 320)
    assert facts.dtype == "bfloat16"
    assert facts.weight_bytes == sum(array.nbytes for array in weights(config(), mx.bfloat16).values())
    assert facts.kv_bytes == 3 * 2 * 2 * 16 * 2
    assert facts.roles == {"target", "drafter"}
    assert facts.drafter is None
    assert facts.end_ids == {2, 7, 9}
    assert facts.sampling == {"temperature": 0.6, "top_p": 0.9, "top_k": 40.0}
    assert facts.config["hidden_size"] == 64


def test_greedy_by_default_where_the_checkpoint_says_so(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.6, "top_p": null}')
    assert FAMILY.read(tmp_path, "target").sampling == {"temperature": 0.0}


def test_a_default_that_no_float_can_be_is_left_out(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    huge = f'{{"temperature": 1{"0" * 400}, "top_p": Infinity, "top_k": 40, "min_p": true}}'
    (tmp_path / "generation_config.json").write_text(huge)
    assert FAMILY.read(tmp_path, "target").sampling == {"top_k": 40.0}


def test_a_damaged_generation_config_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint(tmp_path)
    (tmp_path / "generation_config.json").write_text("{")
    assert FAMILY.read(tmp_path, "target").sampling == {}
    assert "generation_config.json cannot be read: it is not valid JSON" in caplog.text


def test_the_weights_key_tells_checkpoints_apart(tmp_path: Path) -> None:
    keys = set()
    checkpoint(tmp_path / "a")
    checkpoint(tmp_path / "b")
    checkpoint(tmp_path / "rope", rope_theta=20_000.0)
    checkpoint(tmp_path / "f16", mx.float16)
    checkpoint(tmp_path / "finetune")
    mx.save_safetensors(str(tmp_path / "finetune" / "model.safetensors"), weights(config(), seed=1))
    for folder in ("a", "rope", "f16", "finetune"):
        keys.add(FAMILY.read(tmp_path / folder, "target").weights_key)
    assert len(keys) == 4
    assert FAMILY.read(tmp_path / "b", "target").weights_key in keys


def test_the_weights_key_tells_a_single_weight_apart(tmp_path: Path) -> None:
    path = checkpoint(tmp_path) / "model.safetensors"
    keys, data = [FAMILY.read(tmp_path, "target").weights_key], bytearray(path.read_bytes())
    for at in (len(data) // 2, len(data) // 3, -1):
        data[at] ^= 1
        path.write_bytes(data)
        keys.append(FAMILY.read(tmp_path, "target").weights_key)
    assert len(set(keys)) == 4


def test_recognises_by_config_alone(tmp_path: Path) -> None:
    assert not FAMILY.recognises(tmp_path)
    (tmp_path / "config.json").write_text("[")
    assert not FAMILY.recognises(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    assert not FAMILY.recognises(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert FAMILY.recognises(tmp_path)


CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "qwen3"}, "is a model of type 'qwen3', and the family llama serves type 'llama'"),
    ({"quantization": {"bits": 4}}, "tiny has quantized weights (quantization in config.json)"),
    (
        {"quantization_config": {"quant_method": "awq"}},
        "tiny has quantized weights (quantization_config in config.json)",
    ),
    (
        {"sliding_window": 4096, "architectures": ["MistralForCausalLM"]},
        "tiny has sliding attention (sliding_window in config.json, whose architectures name 'MistralForCausalLM')",
    ),
    (
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
        "tiny has layers of sliding attention (layer_types in config.json)",
    ),
    ({"layer_types": 3}, "config.json does not describe a Llama: layer_types is 3, not a list"),
    ({"layer_types": {"0": "full_attention"}}, "layer_types is {'0': 'full_attention'}, not a list"),
    ({"rope_scaling": {"type": "yarn", "factor": 4}}, "tiny scales rope by 'yarn', and the family llama serves"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 4}}, "tiny scales rope by 'dynamic'"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "tiny scales rope by 'longrope'"),
    ({"rope_traditional": True}, "tiny pairs rope dimensions the traditional way"),
    ({"partial_rotary_factor": 0.5}, "tiny rotates a part of each head"),
    ({"rope_parameters": {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5}}, "tiny rotates a part of each head"),
    ({"hidden_act": "gelu"}, "tiny uses 'gelu' in its MLP, and the family llama serves 'silu'"),
    ({"model_file": "mine.py"}, "tiny brings code of its own"),
    ({"hidden_size": None}, "does not describe a Llama: hidden_size is missing"),
    ({"num_hidden_layers": "3"}, "does not describe a Llama: num_hidden_layers is '3', not a count"),
    ({"num_hidden_layers": 2_000_000}, "num_hidden_layers is 2000000, and the most that is taken is 4096"),
    ({"rms_norm_eps": 10**400}, "rms_norm_eps is 1000"),
    ({"vocab_size": 0}, "does not describe a Llama: vocab_size is 0, not a count"),
    ({"num_key_value_heads": 3}, "does not describe a Llama: num_key_value_heads 3 does not divide 4 heads"),
    ({"head_dim": 15}, "does not describe a Llama: head_dim 15 is odd"),
    ({"rms_norm_eps": "small"}, "does not describe a Llama: rms_norm_eps is 'small', not a positive number"),
    ({"rope_scaling": {"type": "linear"}}, "does not describe a Llama: factor is missing"),
    ({"rope_scaling": LLAMA3 | {"factor": -1}}, "does not describe a Llama: factor is -1, not a positive number"),
    ({"num_hidden_layers": 4}, "do not fit its config.json: model.layers.3.self_attn.q_proj.weight is missing"),
    ({"num_hidden_layers": 2}, "do not fit its config.json: model.layers.2.input_layernorm.weight is no part of it"),
    (
        {"intermediate_size": 128},
        "do not fit its config.json: model.layers.0.mlp.gate_proj.weight has shape [160, 64],"
        " and the config says [128, 64]",
    ),
    ({"attention_bias": True}, "do not fit its config.json: model.layers.0.self_attn.q_proj.bias is missing"),
    ({"tie_word_embeddings": False}, "do not fit its config.json: lm_head.weight is missing"),
]


@pytest.mark.parametrize(("changes", "text"), CONFIGS, ids=lambda one: str(one)[:60] if isinstance(one, dict) else "")
def test_configs_that_are_not_served(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config(**changes)))
    assert text in refused(tmp_path).reason


def tensors(change: Callable[[dict[str, mx.array]], None]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        found = weights(config())
        change(found)
        mx.save_safetensors(str(folder / "model.safetensors"), found)

    return write


def named(name: str, array: mx.array) -> Callable[[Path], None]:
    return tensors(lambda found: found.update({name: array}))


def raw(data: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(data)

    return write


def header(entries: dict[str, Any], body: bytes = b"") -> Callable[[Path], None]:
    text = json.dumps(entries).encode()
    return raw(struct.pack("<Q", len(text)) + text + body)


def stored(name: str, dtype: str) -> Callable[[Path], None]:
    """A tensor of that dtype, in place of another or beside all of them."""

    def write(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        entries, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        width = 8 if dtype == "F64" else 1
        shape = entries[name]["shape"] if name in entries else [8]
        end = len(body) + math.prod(shape) * width
        if (old := entries.get(name)) is not None:  # its bytes stay, as a buffer's
            begin, behind = old["data_offsets"]
            entries["hole"] = {"dtype": "U8", "shape": [behind - begin], "data_offsets": [begin, behind]}
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), end]}
        header(entries, body + bytes(end - len(body)))(folder)

    return write


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}})
    )


def twice(folder: Path) -> None:
    (folder / "model-2.safetensors").write_bytes((folder / "model.safetensors").read_bytes())


BUFFERS = {
    "model.layers.0.self_attn.rotary_emb.inv_freq": mx.zeros((8,)),
    "model.rotary_emb.inv_freq": mx.zeros((8,)),
    "model.layers.2.self_attn.rotary_emb.cos_cached": mx.zeros((1, 1, 640, 16)),
    "model.embed_tokens.position_ids": mx.arange(5),
    "model.layers.0.self_attn.causal_mask": mx.ones((4, 4), mx.bool_),
}

PACKED = "model.layers.0.mlp.up_proj"

FILES: list[tuple[str, Callable[[Path], None], str]] = [
    (
        "scales",
        named(f"{PACKED}.scales", mx.zeros((160, 1))),
        f"has quantized weights ({PACKED}.scales is stored as F32)",
    ),
    (
        "biases",
        named(f"{PACKED}.biases", mx.zeros((160, 1))),
        f"has quantized weights ({PACKED}.biases is stored as F32)",
    ),
    ("packed", named(f"{PACKED}.weight", mx.zeros((160, 8), mx.uint32)), "has quantized weights"),
    ("int8", named(f"{PACKED}.weight", mx.zeros((160, 64), mx.int8)), f"({PACKED}.weight is stored as I8)"),
    (
        "missing",
        tensors(lambda found: found.update(unused=found.pop("model.norm.weight"))),
        "model.norm.weight is missing",
    ),
    ("extra", named("score.weight", mx.zeros((2, 64))), "score.weight is no part of it"),
    ("two files", twice, "two files hold"),
    ("cut short", cut, "bytes, and its header says"),
    ("empty", raw(b""), "it does not begin with a safetensors header"),
    ("text", raw(b"version https://git-lfs.github.com/spec/v1"), "it does not begin with a safetensors header"),
    ("endless header", raw(struct.pack("<Q", 1 << 60) + b"{}"), "it does not begin with a safetensors header"),
    ("no JSON", raw(struct.pack("<Q", 2) + b"{{"), "its safetensors header cannot be read"),
    ("a list", raw(struct.pack("<Q", 2) + b"[]"), "its safetensors header cannot be read"),
    ("no offsets", header({"a": {"dtype": "F32", "shape": [1]}}), "its safetensors header cannot be read"),
    (
        "a hole",
        header({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"12"),
        "tensors that overlap, or a hole between",
    ),
    (
        "an overlap",
        header(
            {
                "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
            },
            b"123",
        ),
        "tensors that overlap, or a hole between",
    ),
    ("unknown dtype", header({"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 1]}}, b"1"), "stores a as X,"),
    ("no dtype", header({"a": {"dtype": 3, "shape": [], "data_offsets": [0, 0]}}), "header cannot be read"),
    ("bytes before", header({"a": {"dtype": "X", "shape": [], "data_offsets": [1, 0]}}), "header cannot be read"),
    (
        "wrong bytes",
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
        "its safetensors header cannot be read",
    ),
    (
        "double precision",
        stored("model.norm.weight", "F64"),
        "stores model.norm.weight as F64",
    ),
    (
        "float8",
        stored("model.norm.weight", "F8_E4M3"),
        "has quantized weights (model.norm.weight is stored as F8_E4M3)",
    ),
    (
        "float8 of a newer writer",
        stored("model.norm.weight", "F8_E4M3FN"),
        "has quantized weights (model.norm.weight is stored as F8_E4M3FN)",
    ),
    (
        "dtype of a newer writer",
        stored("model.norm.weight", "BF12"),
        "stores model.norm.weight as BF12, and the family",
    ),
    ("a buffer in it", stored("model.rotary_emb.inv_freq", "BF12"), "stores model.rotary_emb.inv_freq as BF12, and"),
    (
        "packed under another name",
        tensors(lambda found: found.update({f"{PACKED}.W_q": found.pop(f"{PACKED}.weight").astype(mx.uint8)})),
        f"has quantized weights ({PACKED}.W_q is stored as U8)",
    ),
    ("missing shard", index, "model-00002-of-00002.safetensors cannot be read: it is missing, and the index names it"),
    ("no files", lambda folder: (folder / "model.safetensors").unlink(), "has no model*.safetensors file"),
]


@pytest.mark.parametrize(("change", "text"), [pytest.param(*one[1:], id=one[0]) for one in FILES])
def test_weights_that_are_not_served(tmp_path: Path, change: Callable[[Path], None], text: str) -> None:
    checkpoint(tmp_path)
    change(tmp_path)
    assert text in refused(tmp_path).reason


def test_a_separate_quantization_config_is_seen(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    (tmp_path / "hf_quant_config.json").write_text("{}")
    assert refused(tmp_path).reason.startswith("tiny has quantized weights (hf_quant_config.json)")


def test_a_quantized_drafter_is_refused_as_a_drafter(tmp_path: Path) -> None:
    checkpoint(tmp_path, quantization={"bits": 4, "group_size": 64})
    refusal = refused(tmp_path, "drafter")
    assert refusal.name == "quantized_drafter"
    assert "tiny is a quantized drafter (quantization in config.json)" in refusal.reason
    assert "--drafter-bits is not read" in refusal.hint


def test_what_the_config_says_is_refused_without_weights(tmp_path: Path) -> None:
    checkpoint(tmp_path, quantization={"bits": 4, "group_size": 64})
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(Refused, match=r"quantization in config\.json"):
        FAMILY.refuse(tmp_path, "target", "tiny")
    (tmp_path / "config.json").write_text(json.dumps(config()))
    FAMILY.refuse(tmp_path, "target", "tiny")
    (tmp_path / "config.json").unlink()
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(Refused, match="is a LoRA adapter"):
        FAMILY.refuse(tmp_path, "target", "tiny")
    assert isinstance(FAMILY, RefusesEarly)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapters.safetensors", "adapter_model.safetensors"])
@pytest.mark.parametrize("with_config", [True, False])
def test_an_adapter_is_refused(tmp_path: Path, name: str, with_config: bool) -> None:
    (tmp_path / name).write_text("{}")
    if with_config:
        (tmp_path / "config.json").write_text(json.dumps(config()))
    refusal = refused(tmp_path)
    assert refusal.reason == f"{tmp_path} is a LoRA adapter, and adapters are not served"
    assert "mlx_lm.fuse" in refusal.hint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "it is missing"),
        ("{", "it is not valid JSON"),
        ("[1]", "it is not a JSON object"),
        ("[" * 9_000, "it is not"),
    ],
)
def test_a_config_that_cannot_be_read(tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert f"{tmp_path / 'config.json'} cannot be read: {why}" in refused(tmp_path).reason


@pytest.mark.parametrize("name", BUFFERS)
def test_buffers_are_no_weights(tmp_path: Path, name: str) -> None:
    checkpoint(tmp_path)
    named(name, BUFFERS[name])(tmp_path)
    plain = sum(array.nbytes for array in weights(config()).values())
    assert FAMILY.read(tmp_path, "target").weight_bytes == plain


@pytest.mark.parametrize("architectures", [["LlamaForCausalLM"], "LlamaForCausalLM", [], None])
def test_a_left_over_window_is_not_read(tmp_path: Path, architectures: object) -> None:
    layers = {"layer_types": ["full_attention"] * 3, "sliding_window": 4_096}
    assert FAMILY.read(checkpoint(tmp_path, architectures=architectures, **layers), "target").context == 640


def test_nothing_of_a_refused_checkpoint_is_loaded(tmp_path: Path) -> None:
    checkpoint(tmp_path, quantization={"bits": 4})
    before = mx.get_active_memory()
    refused(tmp_path)
    assert mx.get_active_memory() == before

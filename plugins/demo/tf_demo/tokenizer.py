"""The Hugging Face tokenizer files of a GGUF file's GPT-2 style byte-level BPE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tf_demo.gguf_file import LlamaFile

CONTROL = 3  # GGUF's token_type of special tokens


def build(file: LlamaFile) -> Tokenizer:
    """The tokenizer itself: digits split one by one, then byte-level BPE, no token added at either end.

    Raises:
        ValueError: the file's tokenizer is of another kind.
    """
    model, splitting = file.field("tokenizer.ggml.model"), file.field("tokenizer.ggml.pre")
    if (model, splitting) != ("gpt2", "smollm"):
        raise ValueError(f"cannot rebuild a {model}/{splitting} tokenizer, only gpt2/smollm")
    tokens = file.field("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in file.field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.field("tokenizer.ggml.token_type")
    special = (token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def write(file: LlamaFile, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and generation_config.json to `folder`."""
    build(file).save(str(folder / "tokenizer.json"), pretty=False)
    tokens = file.field("tokenizer.ggml.tokens")
    roles = ("bos", "eos", "unknown", "padding")
    ids = {role: file.field(f"tokenizer.ggml.{role}_token_id") for role in roles}
    settings = {
        # Any other class would rebuild the pre-tokenizer from its own idea of it.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[ids["bos"]],
        "eos_token": tokens[ids["eos"]],
        "unk_token": tokens[ids["unknown"]],
        "pad_token": tokens[ids["padding"]],
        "model_max_length": file.field("llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "chat_template": file.field("tokenizer.chat_template"),
    }
    _write_json(folder / "tokenizer_config.json", settings)
    generation = {"bos_token_id": ids["bos"], "eos_token_id": ids["eos"], "pad_token_id": ids["padding"]}
    _write_json(folder / "generation_config.json", generation)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

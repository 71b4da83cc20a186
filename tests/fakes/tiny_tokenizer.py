"""Small tokenizers of each kind, with chat templates, written as checkpoint folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CORPUS = (
    "the quick brown fox jumps over the lazy dog and then it sleeps all day long in the warm sun",
    "Hello, world! The year 2026 has 365 days. def f(x): return x**2 naïve café 東京 🚀 assistant user system",
    "once upon a time there was a model that proposed tokens and another that verified each of them in turn",
)


def byte_level(folder: Path, template: str | None = CHATML, extra: tuple[str, ...] = ()) -> Path:
    """A GPT-2 style byte-level BPE: ``<|endoftext|>`` 0, ``<|im_start|>`` 1, ``<|im_end|>`` 2, then ``extra``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", *extra],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _write(folder, tokenizer, template, eos="<|endoftext|>")


def byte_fallback(folder: Path, *, strip: bool = True) -> Path:
    """A SentencePiece style BPE with byte fallback and a space put before the text; ``<s>`` 1, ``</s>`` 2."""
    words = sorted(set("\u2581".join(CORPUS[:1]).replace(" ", "\u2581")))
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab |= {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    vocab |= {char: 259 + i for i, char in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    steps: list[Any] = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<s>", "</s>")])
    return _write(folder, tokenizer, None, eos="</s>", bos="<s>")


def word_piece(folder: Path) -> Path:
    """A tokenizer whose tokens are not bytes."""
    words = ["[UNK]", "[END]", *dict.fromkeys(" ".join(CORPUS).lower().split()), *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{char}" for char in "abcdefghijklmnopqrstuvwxyz"]
    vocab = {word: i for i, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.add_special_tokens([AddedToken("[END]", special=True, normalized=False)])
    return _write(folder, tokenizer, None, eos="[END]")


def _write(folder: Path, tokenizer: Tokenizer, template: str | None, *, eos: str, bos: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    if template is not None:
        config["chat_template"] = template
    if bos is not None:
        config["bos_token"] = bos
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder

"""A Llama GGUF file into a checkpoint folder."""

from __future__ import annotations

import json
from pathlib import Path

from tf_demo import bf16, tokenizer
from tf_demo.gguf_file import LlamaFile
from tf_plugins.types import Progress


def convert(gguf: Path, folder: Path, progress: Progress) -> None:
    """Write the Llama in `gguf` to `folder`: bfloat16 weights, config, tokenizer and generation files.

    Raises:
        ValueError: the file holds another architecture, tensor or tokenizer than this reads.
        OSError: the folder cannot be written.
    """
    doing = f"converting {gguf.name}"
    progress(doing, 0.0)
    file = LlamaFile(gguf)
    (folder / "config.json").write_text(json.dumps(file.config(), indent=1) + "\n")
    tokenizer.write(file, folder)
    weights = list(file.tensors())
    bf16.write_safetensors(folder / "model.safetensors", weights, lambda share: progress(doing, share))

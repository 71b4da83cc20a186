"""The model of bytes as a plugin: a family, a checkpoint named ``bytes``, and a ledger that only counts.

    tf-serve bytes --use-plugins bytes,...

once an entry point of group ``tf_plugins`` names ``tf_host.testing.family:BytesPlugin``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tf_plugins import Plugin, hookimpl
from tf_plugins.folders import cache_folder
from tf_plugins.rows import RowPlan
from tf_plugins.types import (
    Admission,
    Checkpoint,
    Demand,
    Device,
    Family,
    Model,
    NamedCheckpoint,
    Progress,
    Refusal,
    Resources,
    Role,
)

NAME = "bytes"
CONTEXT = 8_192
END, START, VOCAB = 256, 257, 258

_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant: {% endif %}"
)


class ByteFamily:
    """Implements ``tf_plugins.types.Family``."""

    name = NAME

    def recognises(self, folder: Path) -> bool:
        """Whether it is the folder that ``write_checkpoint`` makes."""
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(config, dict) and config.get("model_type") == NAME

    def read(self, folder: Path, role: Role, name: str | None = None) -> Checkpoint:
        """The facts, the same for every folder."""
        return byte_checkpoint(folder, name or NAME)

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
        """The model."""
        from tf_host.testing.model import ByteModel  # it imports MLX, which the host prepares first

        return ByteModel(checkpoint, RowPlan.for_device(device.kind, checkpoint.context))

    def load_tokenizer(self, checkpoint: Checkpoint) -> object | None:
        """The host's, from tokenizer.json."""
        return None


class OpenAdmission:
    """Implements ``Admission``: everything fits, and is counted.

    Args:
        parallel: streams at once.
    """

    def __init__(self, parallel: int) -> None:
        self.budget = 1 << 40
        self.parallel = parallel
        self._streams: dict[int, int] = {}

    def never(self, demand: Demand) -> Refusal | None:
        """Everything fits."""
        return None

    def admit(self, demand: Demand) -> bool:
        """Allocate, up to ``parallel`` streams."""
        if len(self._streams) >= self.parallel:
            return False
        new = sum(growth.new for growth in demand.growth().values())
        demand.allocate(demand.restore)
        self._streams[demand.stream] = demand.cache + new
        return True

    def keep(self, stream: int, nbytes: int) -> bool:
        """Every state may be kept."""
        return stream in self._streams

    def release(self, stream: int) -> None:
        """The stream ended."""
        self._streams.pop(stream, None)

    def used(self) -> Mapping[str, int]:
        """Bytes of streams."""
        return {"streams": sum(self._streams.values())}


class BytesPlugin(Plugin):
    """Serves the model of bytes, and admits every stream where no other plugin decides."""

    api_version = 1

    @hookimpl
    def families(self) -> Sequence[Family]:
        """The family."""
        return (ByteFamily(),)

    @hookimpl
    def checkpoints(self) -> Sequence[NamedCheckpoint]:
        """``bytes``."""
        return (NamedCheckpoint(NAME, lambda progress: write_checkpoint(cache_folder() / "bytes")),)

    @hookimpl
    def admission(self, resources: Resources) -> Admission:
        """A ledger without a limit."""
        return OpenAdmission(resources.parallel or 4)


def byte_checkpoint(folder: Path, name: str, context: int = CONTEXT) -> Checkpoint:
    """Facts of the model of bytes."""
    return Checkpoint(
        folder=folder,
        name=name,
        family=NAME,
        roles=frozenset({"target"}),
        context=context,
        vocab=VOCAB,
        dtype="bfloat16",
        weight_bytes=0,
        kv_bytes=8,
        weights_key=NAME,
        end_ids=frozenset({END}),
    )


def write_checkpoint(folder: Path) -> Path:
    """A folder with config.json and a tokenizer whose ids are the bytes."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": NAME}))
    tokenizer = Tokenizer(models.BPE(vocab={char: byte for byte, char in _alphabet().items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<|end|>", "<|start|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|end|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": _TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def _alphabet() -> dict[int, str]:
    """The letter that byte-level tokenizers write for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + place) for place, byte in enumerate(rest)}

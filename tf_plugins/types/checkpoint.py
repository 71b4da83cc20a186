"""What is known of a checkpoint before any weight is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Role = Literal["target", "drafter"]

Progress = Callable[[str, float], None]
"""Called with what is being done and the share done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NamedCheckpoint:
    """A name that a plugin resolves to a local folder.

    Attributes:
        name: what the user writes, for example ``demo``.
        resolve: makes the folder when it is not there yet, and returns it; raises ``Refused`` when it cannot. Called
            at start-up on the main thread; anything else that it raises stops the start with the plugin's name.
        drafter: the name or path of the drafter that goes with it, for a bare ``--drafter``.
    """

    name: str
    resolve: Callable[[Progress], Path]
    drafter: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's facts, from its config and safetensors headers alone.

    Attributes:
        folder: the local folder.
        name: the name to show and to serve under by default.
        family: the family's name.
        revision: hub revision, where one is known.
        roles: what it may be used for.
        context: the longest context in tokens (the model's own).
        vocab: rows of the output head, padding included.
        dtype: dtype of the stored weights, for example ``"bfloat16"``.
        weight_bytes: bytes of the stored weights.
        kv_bytes: key and value bytes of one token at 2 bytes a number
            (layers x 2 x kv heads x head size x 2).
        drafter: the drafter that goes with it (name, hub id or path), for a bare ``--drafter``.
        weights_key: digest of a target's config and weights: what is kept on disk for one must not be taken for
            another's. Part of the verdict's key.
        config: the parsed config.json.
        sampling: sampling defaults from generation_config.json (``temperature``, ``top_p``, ``top_k``, ...).
        end_ids: end tokens of config and generation_config; the template's are the tokenizer's to add.
    """

    folder: Path
    name: str
    family: str
    roles: frozenset[Role]
    context: int
    vocab: int
    dtype: str
    weight_bytes: int
    kv_bytes: int
    weights_key: str
    revision: str | None = None
    drafter: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    end_ids: frozenset[int] = frozenset()

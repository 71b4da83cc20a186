"""A checkpoint's tokenizer files, and what tells two tokenizers apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Vocabulary", "difference", "read"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What decides which ids a text becomes, and which ids begin and end it.

    Attributes:
        ids: id of each token, added ones included.
        rules: merges, added tokens and the like, by the name that a message gives them.
        ends: ids by the file that names them, for ``bos`` and for ``eos``.
    """

    ids: Mapping[str, int]
    rules: Mapping[str, Any]
    ends: Mapping[str, Mapping[str, Any]]

    @property
    def size(self) -> int:
        """All ids are below this."""
        return max(self.ids.values(), default=-1) + 1


def read(folder: Path) -> Vocabulary:
    """The tokenizer of a checkpoint folder.

    Raises:
        OSError: a file is missing or cannot be read.
        ValueError, KeyError, TypeError, AttributeError: a file does not hold what it should.
    """
    tokenizer = _object(folder / "tokenizer.json")
    model, added = tokenizer["model"], tokenizer.get("added_tokens") or []
    vocab = model["vocab"]
    pieces = vocab if isinstance(vocab, dict) else {piece: at for at, (piece, _score) in enumerate(vocab)}
    ids = pieces | {token["content"]: token["id"] for token in added}
    rules = {
        "scores": [] if isinstance(vocab, dict) else [score for _piece, score in vocab],
        "merges": [tuple(m.split(" ") if isinstance(m, str) else m) for m in model.get("merges") or []],
        "added tokens": sorted(added, key=lambda token: token["id"]),
        "kind of model": model.get("type"),
        "normalizer": tokenizer.get("normalizer"),
        "pre-tokenizer": tokenizer.get("pre_tokenizer"),
    }
    return Vocabulary(ids, rules, dict(_ends(folder, ids)))


def difference(one: Vocabulary, other: Vocabulary) -> str | None:
    """Where the first differs from the second, in a few words; ``None`` for the same tokenizer."""
    if one.ids != other.ids:
        _, token = min((id, token) for token, id in one.ids.items() ^ other.ids.items())
        if token not in one.ids or token not in other.ids:
            return f"it has no {token!r}" if token not in one.ids else f"only it has {token!r}"
        return f"the id of {token!r} is {one.ids[token]} and not {other.ids[token]}"
    for name, rule in one.rules.items():
        if rule != other.rules[name]:
            return f"its {name} are others" if name.endswith("s") else f"its {name} is another"
    for name, by_file in one.ends.items():
        ours, theirs = _comparable(by_file, other.ends[name])
        if ours != theirs:
            return f"{name} is {ours} and not {theirs}"
    return None


def _ends(folder: Path, ids: Mapping[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    config = _object(folder / "config.json")
    path = folder / "tokenizer_config.json"
    named = _object(path) if path.exists() else {}
    for name in ("bos", "eos"):
        by_file: dict[str, Any] = {}
        if (token := named.get(f"{name}_token")) is not None:
            content = token["content"] if isinstance(token, dict) else token
            by_file["tokenizer_config.json"] = ids.get(content, content)
        if (stated := config.get(f"{name}_token_id")) is not None:
            by_file["config.json"] = sorted(stated) if isinstance(stated, list) and len(stated) != 1 else _one(stated)
        yield name, by_file


def _comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[Any, Any]:
    """What the files say that both checkpoints have; where there is none, what the first file of each says."""
    shared = [file for file in one if file in other]
    if not shared:
        return next(iter(one.values()), None), next(iter(other.values()), None)
    file = next((file for file in shared if one[file] != other[file]), shared[0])
    return one[file], other[file]


def _one(stated: Any) -> Any:
    return stated[0] if isinstance(stated, list) else stated


def _object(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return value

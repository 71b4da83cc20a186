"""Whether a drafter fits a target: asked by name and from small files, before any weight is read."""

from __future__ import annotations

from pathlib import Path

from tf_llama import refusals
from tf_llama.drafter import vocabulary
from tf_llama.reading import DTYPES
from tf_plugins import Refused
from tf_plugins.types import Checkpoint, Refusal

__all__ = ["refuse_pair"]

FAMILY = "llama"

_ANOTHER = "give a drafter made for this model, or start without --drafter"


def refuse_pair(target: Checkpoint, drafter: Checkpoint) -> Refusal | None:
    """Why `drafter` cannot draft for `target`; ``None`` for a pair that fits, or one of other families."""
    if FAMILY not in (target.family, drafter.family):
        return None
    return _by_name(target, drafter) or _by_tokenizer(target, drafter)


def _by_name(target: Checkpoint, drafter: Checkpoint) -> Refusal | None:
    name = drafter.name
    if drafter.family != target.family:
        return _refusal(
            "drafter_other_family",
            f"{name} is a drafter of the family {drafter.family}, and {target.name} is of the family {target.family}",
        )
    if "drafter" not in drafter.roles:
        return refusals.target_only(name)
    if quantized := drafter.config.keys() & {"quantization", "quantization_config"}:
        return refusals.quantized(name, f"{min(quantized)} in config.json", "drafter")
    if drafter.dtype not in DTYPES.values():
        return refusals.quantized(name, f"{drafter.dtype} weights", "drafter")
    return None


def _by_tokenizer(target: Checkpoint, drafter: Checkpoint) -> Refusal | None:
    try:
        theirs = _read(target.folder, f"the model {target.name}")
        own = _read(drafter.folder, f"the drafter {drafter.name}")
    except Refused as error:
        return error.refusal
    if differs := vocabulary.difference(own, theirs):
        return _refusal(
            "drafter_other_tokenizer", f"{drafter.name} is a drafter on another tokenizer than {target.name}: {differs}"
        )
    # Ids past the target's head are neither sent nor drawn: the usual padding token may be past both.
    served = min(own.size, target.vocab)
    if drafter.vocab < served:
        return _refusal(
            "drafter_vocab",
            f"the drafter {drafter.name} has a head of {drafter.vocab} rows for the {served} ids of {target.name}",
        )
    return None


def _read(folder: Path, what: str) -> vocabulary.Vocabulary:
    try:
        return vocabulary.read(folder)
    except OSError as error:
        cause = f"{error.filename or folder}: {error.strerror or error}"
        raise Refused(_unreadable(what, cause)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(_unreadable(what, f"{folder}: {error}")) from error


def _unreadable(what: str, cause: str) -> Refusal:
    return _refusal(
        "drafter_tokenizer_unreadable",
        f"the tokenizer of {what} cannot be compared: {cause}",
        "put tokenizer.json, tokenizer_config.json and config.json in its folder, or start without --drafter",
    )


def _refusal(name: str, reason: str, hint: str = _ANOTHER) -> Refusal:
    return Refusal(name, reason, hint, param="drafter")

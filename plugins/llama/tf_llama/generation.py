"""Sampling defaults and end tokens, from generation_config.json and config.json."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tf_llama.config import read_json
from tf_plugins import Refused

__all__ = ["end_ids", "read_generation_config", "sampling"]

log = logging.getLogger(__name__)

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def read_generation_config(folder: Path) -> dict[str, Any]:
    """The folder's generation_config.json; empty where there is none, or where it cannot be read."""
    path = folder / "generation_config.json"
    if not path.exists():
        return {}
    try:
        return read_json(path)
    except Refused as refused:
        log.warning("%s; serving without its defaults", refused.refusal.reason)
        return {}


def sampling(generation: Mapping[str, Any]) -> dict[str, float]:
    """Sampling defaults that are numbers; ``do_sample: false`` is greedy."""
    found = {key: float(generation[key]) for key in _SAMPLING if _is_number(generation.get(key))}
    if generation.get("do_sample") is False:
        found["temperature"] = 0.0
    return found


def end_ids(*sources: Mapping[str, Any]) -> frozenset[int]:
    """End tokens that any of the sources names."""
    found: set[int] = set()
    for source in sources:
        value = source.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        found.update(one for one in ids if isinstance(one, int) and not isinstance(one, bool) and one >= 0)
    return frozenset(found)


def _is_number(value: object) -> bool:
    """Whether it is a number that a float can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False

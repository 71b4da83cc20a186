"""Facts to hand to hooks in tests; every field may be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tf_plugins.testing.ledger import NoStates
from tf_plugins.types import Checkpoint, Device, RequestFacts, Resources, StartFacts, TargetFacts

VOCAB = 258
"""Ids of the fake model: 256 bytes, an end and a start."""

CONTEXT = 1_024
GIB = 1 << 30


def device(**fields: Any) -> Device:
    """A CPU."""
    return Device(**{"kind": "cpu", "backend": "cpu", "name": "cpu (fake)", **fields})


def checkpoint(**fields: Any) -> Checkpoint:
    """A small target."""
    facts: dict[str, Any] = {
        "folder": Path("bytes"),
        "name": "bytes",
        "family": "bytes",
        "roles": frozenset({"target"}),
        "context": CONTEXT,
        "vocab": VOCAB,
        "dtype": "bfloat16",
        "weight_bytes": 0,
        "kv_bytes": 8,
        "weights_key": "bytes",
    }
    return Checkpoint(**{**facts, **fields})


def target_facts(**fields: Any) -> TargetFacts:
    """A target without a model: a proposer that needs one is given the real thing."""

    def noise(seed: int, position: int) -> Any:
        raise NotImplementedError("these facts have no noise: override target() in your tests, with a real target's")

    facts: dict[str, Any] = {
        "model": None,
        "checkpoint": checkpoint(),
        "vocab": VOCAB,
        "noise_vocab": VOCAB,
        "drafter": None,
        "device": device(),
        "context": CONTEXT,
        "parallel": 4,
        "noise": noise,
    }
    return TargetFacts(**{**facts, **fields})


def start_facts(**fields: Any) -> StartFacts:
    """A start without a drafter."""
    facts: dict[str, Any] = {
        "target": checkpoint(),
        "drafter": None,
        "device": device(),
        "context": CONTEXT,
        "parallel": 4,
        "plugins": ("bytes",),
    }
    return StartFacts(**{**facts, **fields})


def request_facts(**fields: Any) -> RequestFacts:
    """A short chat request."""
    body = {"model": "bytes", "messages": [{"role": "user", "content": "Hi"}]}
    facts: dict[str, Any] = {"id": "r1", "route": "chat", "prompt_tokens": 12, "max_tokens": 100, "body": body}
    return RequestFacts(**{**facts, **fields})


def resources(**fields: Any) -> Resources:
    """16 GiB for streams of 1 GiB at full length, at most four at once."""

    def bytes_for(tokens: int) -> int:
        return tokens * (GIB // CONTEXT)

    facts: dict[str, Any] = {
        "memory": 16 * GIB,
        "weights": GIB,
        "limit": None,
        "states_limit": None,
        "context": CONTEXT,
        "parallel": 4,
        "stream_bytes": bytes_for(CONTEXT),
        "bytes_for": bytes_for,
        "shedding": {},
        "states": NoStates(),
    }
    return Resources(**{**facts, **fields})

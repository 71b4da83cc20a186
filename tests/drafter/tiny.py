"""Tiny random Llamas, and drafters made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlx_lm.models import llama

from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.drafter.start import start
from tf_plugins.types import Checkpoint, Device, DraftRequest, TargetFacts

VOCAB = 96
CONTEXT = 512

DEVICES = {
    "cpu": Device(kind="cpu", backend="cpu", name="cpu"),
    # The other form, on whatever the test runs on.
    "gpu": Device(kind="gpu", backend="cuda", name="gpu"),
}


def args(**changes: Any) -> dict[str, Any]:
    base = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCAB,
        "rope_theta": 10_000.0,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
    }
    return base | changes


def module(seed: int = 0, **changes: Any) -> Any:
    """A random Llama whose greedy tokens are far from ties, and vary."""
    made = llama.Model(llama.ModelArgs.from_dict(args(**changes)))
    mx.random.seed(seed)
    weights = {}
    for name, weight in made_parameters(made):
        if "norm" in name:
            weights[name] = 1 + 0.2 * mx.random.normal(weight.shape)
        else:
            weights[name] = mx.random.normal(weight.shape) * (1.5 / weight.shape[-1] ** 0.5)
    made.load_weights(list(weights.items()))
    mx.eval(made.parameters())
    return made


def made_parameters(made: Any) -> list[tuple[str, mx.array]]:
    from mlx.utils import tree_flatten

    return tree_flatten(made.parameters())


def checkpoint(**changes: Any) -> Checkpoint:
    facts: dict[str, Any] = {
        "folder": Path("tiny"),
        "name": "tiny",
        "family": "llama",
        "roles": frozenset({"target", "drafter"}),
        "context": CONTEXT,
        "vocab": VOCAB,
        "dtype": "float32",
        "weight_bytes": 0,
        "kv_bytes": 0,
        "weights_key": "",
    }
    return Checkpoint(**facts | changes)


def noise(seed: int, position: int) -> mx.array:
    return mx.random.gumbel([VOCAB + 7], key=mx.random.key(seed * 10_000 + position))


def target(kind: str = "cpu", **changes: Any) -> TargetFacts:
    facts: dict[str, Any] = {
        "model": SimpleNamespace(),
        "checkpoint": checkpoint(name="target"),
        "vocab": VOCAB,
        "noise_vocab": VOCAB + 7,
        "drafter": None,
        "device": DEVICES[kind],
        "context": CONTEXT,
        "parallel": 4,
        "noise": noise,
    }
    return TargetFacts(**facts | changes)


def drafter(
    kind: str = "cpu", seed: int = 0, context: int = CONTEXT, parallel: int | None = 4, **changes: Any
) -> LlamaDrafter:
    facts = checkpoint(context=context, vocab=changes.get("vocab_size", VOCAB))
    return start(module(seed, **changes), facts, target(kind, parallel=parallel))


def request(
    stream: int, context: Sequence[int], most: int, seed: int = 0, temperature: float = 0.0, **more: Any
) -> DraftRequest:
    return DraftRequest(stream, context, most, seed, temperature, len(context), **more)


def proposed(made: LlamaDrafter, *requests: DraftRequest) -> list[tuple[int, ...] | None]:
    return [draft and draft.tokens for draft in made.propose(requests)]


class Reference:
    """The same Llama in mlx-lm's own code, each time from the start: what a draft should be."""

    def __init__(self, **changes: Any) -> None:
        self._module = module(**changes)

    def draft(self, context: Sequence[int], most: int, seed: int = 0, temperature: float = 0.0) -> tuple[int, ...]:
        tokens, cache, read = list(context), self._module.make_cache(), 0
        for _ in range(most):
            logits = self._module(mx.array([tokens[read:]]), cache=cache)[0, -1]
            read = len(tokens)
            if temperature:
                logits = logits / temperature + noise(seed, len(tokens))[: logits.shape[0]]
            tokens.append(int(mx.argmax(logits).item()))
        return tuple(tokens[len(context) :])

"""A trial before the kernel is trusted: its drafts must be what MLX finds best, within rounding."""

from __future__ import annotations

import mlx.core as mx

from tf_llama.drafter.chain import Chain, Turn
from tf_llama.drafter.form import Form
from tf_llama.drafter.forward import Forward, Part

__all__ = ["what_is_off"]

_NEAR = 0.25
"""How far below the best logit a draft's may be, in deviations of all logits. Bfloat16 rounds to some 0.01 of one, and
the best of thousands is four above the mean: a draft of a wrong sum would be far off."""

_STEPS = 4


def what_is_off(chain: Chain, form: Form, forward: Forward) -> str:
    """The first draft that MLX would not have chosen, of two streams, one of which was read before; or nothing."""
    contexts = [[(at * 37 + 11) % chain.ids for at in range(length)] for length in (3, 70)]
    slots = [chain.slot(len(context) + _STEPS) for context in contexts]
    chain.read(slots[1], contexts[1][:60])
    turns = [Turn(slot, context[slot.length :], _STEPS, 0, 0.0) for slot, context in zip(slots, contexts, strict=True)]
    for context, drafts in zip(contexts, chain.draft(turns), strict=True):
        logits = _logits(form, forward, [*context, *drafts[:-1]])[-_STEPS:].astype(mx.float32)
        below = mx.max(logits, axis=-1) - mx.take_along_axis(logits, mx.array(drafts)[:, None], axis=-1)[:, 0]
        off = (below / mx.std(logits, axis=-1)).tolist()
        for step, far in enumerate(off):  # type: ignore[arg-type,var-annotated]
            if not far <= _NEAR:  # NaN is off too
                return f"draft {step + 1} after {len(context)} tokens is {far:.2g} deviations below the best"
    return ""


def _logits(form: Form, forward: Forward, tokens: list[int]) -> mx.array:
    """Of all tokens, in one chunk."""
    weights, count = form.weights, len(tokens)
    tail = mx.zeros((2 * weights.kv_heads, count, weights.head_size), weights.dtype)
    part = Part.of([tail], 0, [tail] * len(weights.layers), 0, count)
    rows = forward.rows(mx.array(tokens), form.angles(mx.arange(count)), [part])
    return forward.logits(rows)

"""A trial before the kernel is trusted: its best ids must be what MLX finds best, within rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from tf_llama.drafter.chain import Chain, Turn
from tf_llama.drafter.cuda import plan
from tf_llama.drafter.form import Form
from tf_llama.drafter.forward import Forward, Part

__all__ = ["what_is_off"]

_NEAR = 0.25
"""How far below the best logit a draft's may be, and an alternative's below that of its rank, in deviations of all
logits. Bfloat16 rounds to some 0.01 of one, and the best of thousands is four above the mean: what comes of a wrong sum
would be far off."""

_FAR = 0.1
"""How far a probability may be from MLX's."""

_STEPS = 4


def what_is_off(chain: Chain, form: Form, forward: Forward) -> str:
    """The first id that MLX would not have chosen, of two streams, one of which was read before; or nothing."""
    contexts = [[(at * 37 + 11) % chain.ids for at in range(length)] for length in (3, 70)]
    slots = [chain.slot(len(context) + _STEPS) for context in contexts]
    chain.read(slots[1], contexts[1][:60])
    turns = [
        Turn(slot, context[slot.length :], _STEPS, 0, 0.0, plan.BEST - 1)
        for slot, context in zip(slots, contexts, strict=True)
    ]
    for context, draft in zip(contexts, chain.draft(turns), strict=True):
        logits = _logits(form, forward, [*context, *draft.tokens[:-1]])[-_STEPS:].astype(mx.float32)
        given = zip(draft.tokens, draft.alternatives, draft.probabilities, strict=True)
        for step, (token, others, shares) in enumerate(given):
            if off := _differs([token, *others], shares, logits[step]):
                return f"draft {step + 1} after {len(context)} tokens: {off}"
    return ""


def _differs(ids: list[int], shares: Sequence[float], logits: mx.array) -> str:
    """The first of one step's ids that is off, by their logits ``[ids]``, or whose probability is."""
    if len(set(ids)) < plan.BEST:
        return f"{ids} are not {plan.BEST} ids"
    best = -mx.sort(-logits)[: plan.BEST]
    below: Any = ((best - logits[mx.array(ids)]) / mx.std(logits)).tolist()
    off = next((rank for rank, far in enumerate(below) if not far <= _NEAR), None)  # NaN is off too
    if off is not None:
        return f"its id of rank {off + 1} is {below[off]:.2g} deviations below MLX's"
    known: Any = mx.softmax(logits)[mx.array(ids)].tolist()
    far = next((rank for rank in range(len(ids)) if not abs(shares[rank] - known[rank]) <= _FAR), None)
    if far is not None:
        return f"its id of rank {far + 1} has a probability of {shares[far]:.2g}, not {known[far]:.2g}"
    return ""


def _logits(form: Form, forward: Forward, tokens: list[int]) -> mx.array:
    """Of all tokens, in one chunk."""
    weights, count = form.weights, len(tokens)
    tail = mx.zeros((2 * weights.kv_heads, count, weights.head_size), weights.dtype)
    part = Part.of([tail], 0, [tail] * len(weights.layers), 0, count)
    rows = forward.rows(mx.array(tokens), form.angles(mx.arange(count)), [part])
    return forward.logits(rows)

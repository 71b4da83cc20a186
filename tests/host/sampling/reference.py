"""One draw in plain Python: every id sorted, every sum in order, nothing shared with what it checks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tf_host.requests import Sampling

Row = NDArray[np.float32]


@dataclass
class Reference:
    """The token; what survived the filters, best first; and how near a decision came to going the other way."""

    token: int
    survivors: list[int]
    margin: float


def processed(
    row: Row,
    sampling: Sampling,
    vocab: int,
    prompt: Sequence[int] = (),
    reply: Sequence[int] = (),
    mask: Sequence[bool] | None = None,
) -> Row:
    """Logits after penalties, bias, mask and the tokenizer's end, in float32."""
    values = row[:vocab].astype(np.float32)
    counts = Counter(reply)
    for token in range(vocab):
        value = values[token]
        if token in counts or token in prompt:
            rate = np.float32(sampling.repetition)
            value = value / rate if value > 0 else value * rate
        value = value - np.float32(sampling.frequency) * np.float32(counts[token])
        value = value - np.float32(sampling.presence) * np.float32(token in counts)
        value = value + np.float32(sampling.logit_bias.get(token, 0.0))
        values[token] = value if mask is None or mask[token] else -np.inf
    return values


def draw(values: Row, sampling: Sampling, noise: Row) -> Reference:
    """Draw from processed logits ``[vocab]``."""
    vocab = len(values)
    order = sorted(range(vocab), key=lambda token: (-values[token], token))
    if sampling.temperature == 0:
        return Reference(order[0], order, math.inf)
    margin = math.inf
    if 0 < sampling.top_k < vocab:
        order = order[: sampling.top_k]
    scores = {token: values[token] / np.float32(sampling.temperature) for token in order}
    weights = [math.exp(float(scores[token]) - float(scores[order[0]])) for token in order]
    if sampling.top_p < 1:
        before, kept = 0.0, []
        for token, weight in zip(order, weights, strict=True):
            if kept:
                margin = min(margin, abs(before - sampling.top_p))
            if kept and before >= sampling.top_p:
                break
            kept.append(token)
            before += weight / sum(weights)
        order = kept
    if sampling.min_p > 0:
        best = float(scores[order[0]])
        relative = [math.exp(float(scores[token]) - best) for token in order]
        margin = min([margin, *(abs(share - sampling.min_p) for share in relative[1:])])
        order = [t for t, share in zip(order, relative, strict=True) if share >= sampling.min_p or t == order[0]]
    noisy = {token: scores[token] + noise[token] for token in order}
    return Reference(min(order, key=lambda token: (-noisy[token], token)), order, margin)

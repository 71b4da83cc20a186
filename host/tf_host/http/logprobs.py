"""Log probabilities, as the two routes write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tf_host.requests import TokenInfo
from tf_host.text import Text

_LEAST = -9999.0
"""What stands for minus infinity, which JSON does not have."""


def chat_logprobs(text: Text, tokens: Sequence[TokenInfo]) -> dict[str, Any]:
    """The ``logprobs`` of a chat choice: one entry a token, alternatives included."""
    return {
        "content": [
            _entry(text, info.id, info.logprob)
            | {"top_logprobs": [_entry(text, token, value) for token, value in info.top]}
            for info in tokens
        ],
        "refusal": None,
    }


class CompletionLogprobs:
    """The ``logprobs`` of a completion; offsets count the characters of the tokens before."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._offset = 0

    def of(self, tokens: Sequence[TokenInfo]) -> dict[str, Any]:
        """The entries of the next tokens."""
        names, offsets = [], []
        for info in tokens:
            names.append(self._text.name(info.id))
            offsets.append(self._offset)
            self._offset += len(names[-1])
        return {
            "tokens": names,
            "token_logprobs": [_value(info.logprob) for info in tokens],
            "top_logprobs": [{self._text.name(token): _value(value) for token, value in info.top} for info in tokens],
            "text_offset": offsets,
        }


def _entry(text: Text, token: int, logprob: float | None) -> dict[str, Any]:
    return {"token": text.name(token), "logprob": _value(logprob), "bytes": list(text.piece(token))}


def _value(logprob: float | None) -> float:
    return logprob if logprob is not None and math.isfinite(logprob) else _LEAST

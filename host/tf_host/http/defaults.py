"""How a reply is drawn: the request over the server's flags over the checkpoint."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from tf_host.http.errors import refuse
from tf_host.http.sampling_body import SamplingBody
from tf_host.requests import Sampling
from tf_host.settings import ServerSettings

log = logging.getLogger(__name__)

_COLD = 1e-4
"""Temperatures below this are greedy: dividing by them overflows."""

_BUILT_IN: Mapping[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Where nothing else says; OpenAI's."""


def draw_seed() -> int:
    """A seed for a request that brings none; a JavaScript client can read 53 bits back without loss."""
    return secrets.randbits(53)


def check_known(ids: Iterable[int], vocab: int, param: str) -> None:
    """Raises ``Refused`` for token ids that do not exist."""
    if any(token >= vocab for token in ids):
        reason = f"'{param}' names a token id past the vocabulary of {vocab:,}"
        raise refuse("invalid_value", reason, "ids come from /tokenize", param=param)


def served_defaults(checkpoint: Mapping[str, float], name: str) -> Mapping[str, float]:
    """The sampling defaults of a checkpoint that a request could ask for; the log names the others."""
    served = {}
    for field, value in checkpoint.items():
        whole = int(value) if math.isfinite(value) and value == int(value) else value
        try:
            SamplingBody.model_validate({field: whole})
        except ValidationError as error:
            log.warning("%s: its default %s %r is left out: %s", name, field, value, error.errors()[0]["msg"])
        else:
            served[field] = value
    return served


def sampling_of(
    body: SamplingBody, settings: ServerSettings, checkpoint: Mapping[str, float], *, vocab: int
) -> Sampling:
    """How the reply to ``body`` is drawn; ``Refused`` for a biased token that does not exist."""

    def value(name: str) -> float:
        for source in (getattr(body, name), getattr(settings, name), checkpoint.get(name)):
            if source is not None:
                return float(source)
        return _BUILT_IN[name]

    check_known(body.logit_bias, vocab, "logit_bias")
    top_k = value("top_k")
    temperature = value("temperature")
    return Sampling(
        seed=draw_seed() if body.seed is None else body.seed,
        temperature=0.0 if temperature < _COLD else temperature,
        top_k=int(top_k) if 0 < top_k < vocab else 0,
        top_p=value("top_p"),
        min_p=value("min_p"),
        repetition=value("repetition_penalty"),
        presence=value("presence_penalty"),
        frequency=value("frequency_penalty"),
        logit_bias=body.logit_bias,
    )

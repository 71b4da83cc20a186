"""What a proposer may answer: each function takes an answer, and raises for one of another kind."""

from __future__ import annotations

import math
import operator
from typing import Any

from tf_plugins.types import Costs, Draft, DraftRequest, Growth


def done(answer: Any) -> bool:
    """Takes any answer: the call alone counts."""
    return True


def whole(value: Any) -> int:
    """A whole number of at least 0."""
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{number} is less than nothing")
    return number


def growth(answer: Any, room: int | None) -> Growth:
    """Bytes of at least 0, at most ``room`` of them new."""
    if not isinstance(answer, Growth):
        raise TypeError(f"its {type(answer).__name__} is no Growth")
    checked = Growth(whole(answer.new), whole(answer.reused), whole(answer.copy))
    if room is not None and checked.new > room:
        raise ValueError(f"{checked.new} bytes for a stream do not fit the {room} that there may be")
    return checked


def costs(answer: Any) -> Costs:
    """Finite seconds of at least 0."""
    if not isinstance(answer, Costs):
        raise TypeError(f"its {type(answer).__name__} is no Costs")
    for value in (answer.step, answer.batch, answer.read):
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{value!r} is no time in seconds")
    return Costs(float(answer.step), float(answer.batch), float(answer.read))


def draft(answer: Any) -> Draft:
    """Tokens and alternatives as whole numbers, probabilities as floats."""
    if not hasattr(answer, "tokens"):
        raise TypeError(f"its {type(answer).__name__} is no Draft")
    places = tuple(tuple(map(operator.index, place)) for place in getattr(answer, "alternatives", ()))
    known = tuple(tuple(map(float, place)) for place in getattr(answer, "probabilities", ()))
    return Draft(tuple(map(operator.index, answer.tokens)), places, known)


def wrong(draft: Draft, request: DraftRequest, vocab: int) -> str:
    """The rule that a draft breaks, or nothing."""
    tokens, places = draft.tokens, draft.alternatives
    strange = [token for token in (*tokens, *(token for place in places for token in place)) if not 0 <= token < vocab]
    if strange:
        return f"id {strange[0]} of {vocab}"
    if len(tokens) > request.most:
        return f"{len(tokens)} tokens of at most {request.most}"
    if len(places) > len(tokens):
        return f"alternatives in {len(places)} places of {len(tokens)}"
    for token, place in zip(tokens, places, strict=False):
        if place and not request.alternatives:
            return "it has alternatives, and none were asked for"
        if len(place) > request.alternatives:
            return f"{len(place)} alternatives of at most {request.alternatives}"
        if len({token, *place}) <= len(place):
            return "an alternative that stands twice, or that is the draft"
    return _wrong_probabilities(draft) if draft.probabilities else ""


def _wrong_probabilities(draft: Draft) -> str:
    given = [len(place) for place in draft.probabilities]
    places = (*draft.alternatives, *((),) * (len(draft.tokens) - len(draft.alternatives)))
    if given != (wanted := [1 + len(place) for place in places]):
        return f"{given} probabilities, and its drafts and alternatives are {wanted}"
    strange = [each for place in draft.probabilities for each in place if not 0 <= each <= 1]
    return f"a probability of {strange[0]!r}" if strange else ""

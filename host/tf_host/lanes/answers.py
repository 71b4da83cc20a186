"""What a proposer may answer: each function takes an answer, and raises for one of another kind."""

from __future__ import annotations

import math
import operator
from typing import Any

from tf_plugins.types import Costs, Growth


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

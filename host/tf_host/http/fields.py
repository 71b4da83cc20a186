"""Types of body fields: JSON types are taken at their word, so ``true`` is no number and ``"5"`` is none either."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Number = Annotated[float, Field(allow_inf_nan=False)]

Whole = Annotated[int, Field(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Bounded: JSON's integers are not, and a number of thousands of digits can neither be a float nor be shown."""

MOST_DEPTH = 64
"""Lists and objects inside each other, in what goes to the chat template: what walks it there recurses."""


class Part(BaseModel):
    """A strict object inside a body; it keeps the fields that it does not know, to be reported."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Paths of what a validator left out."""
        return ()


class Body(Part):
    """A request's body."""


def wrong(message: str, code: str = "invalid_value", *, param: str | None = None) -> PydanticCustomError:
    """A validator's complaint in words of our own: a whole sentence, without a full stop.

    Args:
        message: the sentence.
        code: the error's code.
        param: the field at fault, where the validator looks at more than one.
    """
    # The sentence goes through the context: braces in a template of pydantic's have a meaning of their own.
    return PydanticCustomError(code, "{sentence}", {"sentence": message, "own": True, "param": param})


def unread(part: Part, path: str = "") -> list[str]:
    """Paths of the fields that a part, and the parts in it, do not know; ``null`` asks for nothing.

    Args:
        part: the part.
        path: where it is: empty, or a path that ends with a dot.
    """
    extra = [name for name, value in (part.model_extra or {}).items() if value is not None]
    found = [path + name for name in (*extra, *part.dropped)]
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Part):
            found += unread(value, f"{path}{name}.")
        elif isinstance(value, list):
            for at, one in enumerate(value):
                found += unread(one, f"{path}{name}[{at}].") if isinstance(one, Part) else ()
    return found


def known(value: Any) -> Any:
    """A part as JSON, with the fields that it knows and that are not ``null``."""
    if isinstance(value, Part):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return {name: known(one) for name, one in fields.items() if one is not None}
    return [known(one) for one in value] if isinstance(value, list) else value


def too_deep(value: Any, most: int = MOST_DEPTH) -> bool:
    """Whether lists and objects are nested in more than ``most`` levels."""
    if not isinstance(value, dict | list):
        return False
    return most == 0 or any(too_deep(one, most - 1) for one in (value.values() if isinstance(value, dict) else value))


def all_finite(value: Any) -> bool:
    """Whether no number in a value, however deep, is NaN or an infinity: neither is JSON."""
    if isinstance(value, dict | list):
        return all(map(all_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _stops(value: Any) -> Any:
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise wrong("'stop' must be a string or a list of strings")
    if not all(stops):
        raise wrong("'stop' must not contain an empty string")
    return tuple(stops)


Stops = Annotated[
    tuple[str, ...],
    BeforeValidator(_stops, json_schema_input_type=str | list[str] | None),
]

_INT64 = (-(1 << 63), (1 << 64) - 1)


def _seed(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not int or not _INT64[0] <= value <= _INT64[1]:
        raise wrong("'seed' must be a whole number of at most 64 bits")
    return value % (1 << 64)


Seed = Annotated[int | None, BeforeValidator(_seed, json_schema_input_type=int | None)]


def _bias(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong("'logit_bias' must be an object of token ids and numbers")
    biases = {}
    for key, bias in value.items():
        if not key.isascii() or not key.isdigit() or len(key) > 10:
            raise wrong("'logit_bias' has a key that is no token id")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            raise wrong("'logit_bias' has a value that is no number from -100 to 100")
        if int(key) in biases:
            raise wrong("'logit_bias' has two keys for one token id; send one of them")
        biases[int(key)] = float(bias)
    return biases


LogitBias = Annotated[
    dict[int, float],
    BeforeValidator(_bias, json_schema_input_type=dict[str, float] | None),
]

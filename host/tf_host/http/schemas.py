"""A JSON schema inside another one."""

from __future__ import annotations

from typing import Any

_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by names of their own: none of the names is a keyword."""

_VALUES = frozenset({"const", "enum", "default", "examples"})
"""Keywords that hold values: what looks like a reference in them is none."""


def moved_schema(schema: Any, place: str) -> Any:
    """A schema whose references still find their targets once it is no longer the root of its document.

    Args:
        schema: the schema. One with an ``$id`` stays as it is: what is in it is found from there.
        place: where it goes, as a JSON pointer that begins with ``#``.
    """
    if isinstance(schema, list):
        return [moved_schema(one, place) for one in schema]
    if not isinstance(schema, dict) or isinstance(schema.get("$id"), str):
        return schema
    return {keyword: _moved(keyword, value, place) for keyword, value in schema.items()}


def _moved(keyword: str, value: Any, place: str) -> Any:
    if keyword in _VALUES:
        return value
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: moved_schema(one, place) for name, one in value.items()}
    if keyword == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return place + value[1:]
    return moved_schema(value, place)

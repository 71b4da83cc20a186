"""References of a schema that moves into another one."""

from __future__ import annotations

from typing import Any

import pytest

from tf_host.http.schemas import moved_schema


@pytest.mark.parametrize(
    ("schema", "moved"),
    [
        ({"$ref": "#"}, {"$ref": "#/a"}),
        ({"$ref": "#/$defs/P"}, {"$ref": "#/a/$defs/P"}),
        ({"anyOf": [{"$ref": "#/$defs/P"}]}, {"anyOf": [{"$ref": "#/a/$defs/P"}]}),
        ({"$defs": {"const": {"$ref": "#/x"}}}, {"$defs": {"const": {"$ref": "#/a/x"}}}),
        ({"properties": {"$ref": {"$ref": "#/x"}}}, {"properties": {"$ref": {"$ref": "#/a/x"}}}),
    ],
)
def test_references_to_the_document_move(schema: Any, moved: Any) -> None:
    assert moved_schema(schema, "#/a") == moved


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#anchor"},
        {"$ref": "https://example.org/x#/y"},
        {"const": {"$ref": "#/x"}},
        {"properties": {"p": {"enum": [{"$ref": "#/x"}], "default": {"$ref": "#/x"}}}},
        {"$id": "https://example.org/x", "properties": {"p": {"$ref": "#/$defs/P"}}},
        {"properties": {"p": True}, "required": ["#/x"]},
    ],
)
def test_everything_else_stays(schema: Any) -> None:
    assert moved_schema(schema, "#/a") == schema

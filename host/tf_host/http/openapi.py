"""What the OpenAPI document says of bodies and errors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tf_host.http.fields import Body


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """An error as OpenAI writes it."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": description}
    for status, description in {
        400: "A field cannot be served",
        401: "No valid API key",
        404: "No such model",
        408: "The body did not arrive",
        413: "The body is too large",
        415: "The body is no JSON",
        503: "No room; see Retry-After",
    }.items()
}


def takes(kind: type[Body]) -> dict[str, Any]:
    """A route's request body; its schema is written out in place."""
    schema = kind.model_json_schema(mode="validation")
    definitions = schema.pop("$defs", {})
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _inlined(schema, definitions)}},
        }
    }


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {name: _inlined(value, definitions) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_inlined(value, definitions) for value in schema]
    return schema

"""The fields that constrain a reply: OpenAI's ``response_format`` and vLLM's."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tf_host.http.errors import refuse
from tf_host.http.fields import Part, wrong
from tf_host.http.sampling_body import SamplingBody
from tf_host.text import Constraint

ANY_OBJECT = '{"type": "object"}'


class NamedSchema(Part):
    """A JSON schema with a name."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field({}, alias="schema")
    strict: bool | None = None


class ResponseFormat(Part):
    """OpenAI's way to ask for JSON."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


def _schema(value: Any) -> Any:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return parsed
    raise wrong("a JSON schema is needed, as an object or as text")


Schema = Annotated[dict[str, Any] | None, BeforeValidator(_schema, json_schema_input_type=dict[str, Any] | str | None)]


class StructuredOutputs(Part):
    """vLLM's way to ask for one of several forms."""

    json_: Schema = Field(None, alias="json")
    json_object: bool | None = None
    regex: str | None = None
    choice: list[str] | None = Field(None, min_length=1)
    grammar: str | None = None


class GrammarBody(SamplingBody):
    """A reply that may be constrained."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(None, min_length=1)
    guided_grammar: str | None = Field(None, description="Lark or GBNF")


def constraint_of(body: GrammarBody) -> Constraint | None:
    """What a body asks of its reply; ``Refused`` where it asks for two things."""
    found = [constraint for constraint in (*_guided(body), *_structured(body), _format(body)) if constraint]
    if len(found) > 1:
        names = " and ".join(f"'{constraint.param}'" for constraint in found[:2])
        raise refuse("invalid_value", f"{names} constrain one reply", "send one of them", param=found[1].param)
    return found[0] if found else None


def _format(body: GrammarBody) -> Constraint | None:
    asked = body.response_format
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return Constraint("json", ANY_OBJECT, "response_format")
    if asked.json_schema is None:
        raise refuse("invalid_value", "'response_format' has no 'json_schema'", param="response_format")
    return Constraint("json", json.dumps(asked.json_schema.schema_), "response_format")


def _guided(body: GrammarBody) -> list[Constraint | None]:
    return [
        _json("guided_json", body.guided_json),
        _plain("regex", "guided_regex", body.guided_regex),
        _choices("guided_choice", body.guided_choice),
        _plain("grammar", "guided_grammar", body.guided_grammar),
    ]


def _structured(body: GrammarBody) -> list[Constraint | None]:
    asked = body.structured_outputs
    if asked is None:
        return []
    return [
        _json("structured_outputs", asked.json_),
        _json("structured_outputs", json.loads(ANY_OBJECT) if asked.json_object else None),
        _plain("regex", "structured_outputs", asked.regex),
        _choices("structured_outputs", asked.choice),
        _plain("grammar", "structured_outputs", asked.grammar),
    ]


def _json(param: str, schema: dict[str, Any] | None) -> Constraint | None:
    return None if schema is None else Constraint("json", json.dumps(schema), param)


def _plain(kind: Literal["regex", "grammar"], param: str, source: str | None) -> Constraint | None:
    return None if source is None else Constraint(kind, source, param)


def _choices(param: str, choices: list[str] | None) -> Constraint | None:
    return None if choices is None else Constraint("choice", json.dumps(choices), param)

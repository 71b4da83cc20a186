"""The fields that constrain a reply: OpenAI's ``response_format`` and vLLM's."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

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

    @model_validator(mode="before")
    @classmethod
    def _constrains(cls, value: Any) -> Any:
        """Nothing that asks for a constraint is dropped."""
        if not isinstance(value, dict):
            return value
        given = {name for name, one in value.items() if one is not None}
        unread = sorted(given - set(cls.model_fields))
        if value.get("type") in ("text", "json_object") and "json_schema" in given:
            unread = ["json_schema"]
        if unread:
            field = f"response_format.{unread[0][:80]}"
            where = f" where its type is {value['type']!r:.80}" if "type" in value else ""
            way = '{"type": "json_schema", "json_schema": {"schema": ...}}'
            raise wrong(f"'{field}' is not read{where}; a schema is sent as {way}", param=field)
        return value


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


_FORMS = ("json", "json_object", "regex", "choice", "grammar")
HARMLESS = ("_backend", "disable_any_whitespace", "disable_fallback")
"""vLLM's options that are how this server does it anyway."""


class StructuredOutputs(Part):
    """vLLM's way to ask for one of several forms."""

    model_config = ConfigDict(extra="ignore")  # what is left of them asks for nothing

    json_: Schema = Field(None, alias="json")
    json_object: bool | None = None
    regex: str | None = None
    choice: list[str] | None = Field(None, min_length=1)
    grammar: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _constrains(cls, value: Any) -> Any:
        """Nothing that asks for a constraint is dropped."""
        if not isinstance(value, dict):
            return value
        asked = {name: one for name, one in value.items() if one is not None and one is not False}
        known = ", ".join(_FORMS)
        unread = sorted(set(asked) - {*_FORMS, *HARMLESS})
        if unread:
            field = f"structured_outputs.{unread[0][:80]}"
            raise wrong(f"'{field}' is not served; use one of {known}", "unsupported_parameter", param=field)
        if not set(asked).intersection(_FORMS):
            raise wrong(f"'structured_outputs' asks for no form; use one of {known}", param="structured_outputs")
        return value


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
    if "schema_" not in asked.json_schema.model_fields_set:
        raise refuse("invalid_value", "'response_format.json_schema' has no 'schema'", param="response_format")
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
        _json("structured_outputs.json", asked.json_),
        _json("structured_outputs.json_object", json.loads(ANY_OBJECT) if asked.json_object else None),
        _plain("regex", "structured_outputs.regex", asked.regex),
        _choices("structured_outputs.choice", asked.choice),
        _plain("grammar", "structured_outputs.grammar", asked.grammar),
    ]


def _json(param: str, schema: dict[str, Any] | None) -> Constraint | None:
    return None if schema is None else Constraint("json", json.dumps(schema), param)


def _plain(kind: Literal["regex", "grammar"], param: str, source: str | None) -> Constraint | None:
    return None if source is None else Constraint(kind, source, param)


def _choices(param: str, choices: list[str] | None) -> Constraint | None:
    return None if choices is None else Constraint("choice", json.dumps(choices), param)

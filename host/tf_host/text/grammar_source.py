"""What llguidance compiles for a constraint: a Lark grammar, or its form of a schema or regular expression."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON on one line, as models write it most: what the schema fixes is then one run of tokens, which drafts for free,
and no model can go on with spaces for ever."""

_SPELLED = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|#[^\n]*|/(?:\\.|[^/\\])+/', re.DOTALL)
"""Strings, comments and regular expressions of a Lark grammar: what is left names rules and tokens."""

_TOKEN = re.compile(r"<[^<>\s]*>?")


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a reply has to be.

    Attributes:
        kind: how ``source`` is read.
        source: a JSON schema as text, a regular expression, a grammar (Lark or GBNF), a JSON list of strings, or the
            grammar of a tool call, which may name tokens.
        param: the request field that it came from.
    """

    kind: Literal["json", "regex", "choice", "grammar", "call"]
    source: str
    param: str


def llguidance_grammar(constraint: Constraint) -> str:
    """A constraint as llguidance reads it; raises where that is plainly impossible, most is left to llguidance."""
    from llguidance import LLMatcher
    from llguidance.gbnf_to_lark import any_to_lark

    source = constraint.source
    if constraint.kind == "json":
        grammar: str = LLMatcher.grammar_from_json_schema(source, overrides=cast(Any, _STYLE))
    elif constraint.kind == "regex":
        grammar = LLMatcher.grammar_from_regex(source)
    elif constraint.kind == "choice":
        # One terminal: as alternatives of a rule, each choice is a parser item of its own, and 2,000 are the most.
        grammar = "start: CHOICE\nCHOICE: " + " | ".join(json.dumps(choice) for choice in json.loads(source))
    elif constraint.kind == "call":
        grammar = source
    else:
        grammar = any_to_lark(source)
        # A reply's text leaves control tokens out, and one of them may end it.
        if named := _TOKEN.search(_SPELLED.sub(" ", grammar)):
            raise ValueError(f"it names the token {named[0]}, and a reply is text only")
    return grammar


def either(first: str, second: str) -> str:
    """A grammar for a text of one of two, all of them as llguidance reads them."""
    parts = [{**_part(grammar), "name": name} for name, grammar in (("first", first), ("second", second))]
    return json.dumps({"grammars": [{"lark_grammar": "start: @first | @second"}, *parts]})


def _part(grammar: str) -> dict[str, Any]:
    part: dict[str, Any] = {"lark_grammar": grammar}
    if grammar.startswith("{"):  # what llguidance makes of a schema or regular expression; no Lark grammar does
        (part,) = json.loads(grammar)["grammars"]
    return part


def call_grammar(
    start: str, end: str, calls: Sequence[dict[str, Any]], special: Mapping[str, int], between: str | None = None
) -> str:
    """A Lark grammar for one tool call, or for several.

    Args:
        start, end: the marks around a call, which may be empty.
        calls: JSON schemas of the calls that are possible.
        special: ids of the marks that are tokens of their own.
        between: what comes between two calls; ``None`` where there is only one.
    """
    parts = [_lark_mark(start, special), "call", _lark_mark(end, special)]
    schema = json.dumps({"anyOf": list(calls), "x-guidance": _STYLE})
    line_end = ' "\\n" ' if start else " "
    marked = line_end.join(part for part in parts if part)
    more = "" if between is None else f" ({json.dumps(between)} marked)*"
    return f"start: marked{more}\nmarked: {marked}\ncall: %json {schema}\n"


def _lark_mark(mark: str, special: Mapping[str, int]) -> str:
    return f"<[{special[mark]}]>" if mark in special else json.dumps(mark) if mark else ""

"""Constraints on replies, compiled by llguidance."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

Mask = NDArray[np.bool_]

MOST_BYTES = 1 << 16
"""Of a schema, regular expression or grammar; compiling is quadratic in the worst case."""

_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON on one line, as models write it most: what the schema fixes is then one run of tokens, which drafts for free,
and no model can go on with spaces for ever."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a reply has to be.

    Attributes:
        kind: how ``source`` is read.
        source: a JSON schema as text, a regular expression, a grammar (Lark or GBNF), or a JSON list of strings.
        param: the request field that it came from.
    """

    kind: Literal["json", "regex", "choice", "grammar"]
    source: str
    param: str


class GrammarRun:
    """One reply's constraint; implements ``tf_host.requests.Grammar``.

    Args:
        matcher: a fresh llguidance matcher.
        ends: tokens that end a reply; allowed only where the value is complete.
        vocab: length of a mask.
    """

    def __init__(self, matcher: Any, ends: frozenset[int], vocab: int) -> None:
        self._matcher = matcher
        self._ends = ends
        self._vocab = vocab
        self._done = False
        self._only_ends = _mask_of(ends, vocab)

    def mask(self, path: tuple[int, ...]) -> Mask | None:
        """Allowed ids after the committed tokens and ``path``; ``None`` behind a path that cannot land."""
        if self._done:
            return self._only_ends
        taken: int = self._matcher.try_consume_tokens(list(path))
        try:
            if taken < len(path) or self._ends.intersection(path):
                return None
            return self._mask()
        finally:
            self._matcher.rollback(taken)

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft would be accepted; a token behind an end is none of them."""
        if self._done:
            return 0
        for at, token in enumerate(draft):
            if token in self._ends:
                draft = draft[: at + 1]
                break
        allowed: int = self._matcher.validate_tokens(list(draft))
        return allowed

    def commit(self, tokens: tuple[int, ...]) -> None:
        """Tokens that became part of the reply."""
        for token in tokens:
            if token in self._ends:
                self._done = True
            if self._done:
                return
            if not self._matcher.consume_token(token):
                raise ValueError(f"the grammar does not allow token {token}: {self._matcher.get_error()}")

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next."""
        if self._done:
            return ()
        tokens: list[int] = self._matcher.compute_ff_tokens()
        return tuple(tokens[: self._matcher.validate_tokens(tokens)])

    def _mask(self) -> Mask:
        if self._matcher.is_stopped():
            if self._matcher.is_error():
                raise ValueError(f"the grammar failed: {self._matcher.get_error()}")
            return self._only_ends
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        mask = np.unpackbits(bits, count=self._vocab, bitorder="little").astype(np.bool_)
        if self._matcher.is_error() or not mask.any():
            raise ValueError(f"the grammar allows nothing more: {self._matcher.get_error()}")
        return mask


class Grammars:
    """Compiles constraints for one tokenizer; safe to use from several threads.

    Args:
        backend: the ``tokenizers.Tokenizer``.
        ends: tokens that end a reply.
        vocab: length of a mask.
    """

    def __init__(self, backend: Any, ends: frozenset[int], vocab: int) -> None:
        self._backend = backend
        self._ends = frozenset(token for token in ends if token < vocab)
        self._vocab = vocab
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    def compile(self, constraint: Constraint) -> GrammarRun:
        """The constraint of one reply, at its start.

        Raises:
            Refused: it cannot be compiled, is too large, or llguidance is not installed.
        """
        if len(constraint.source.encode()) > MOST_BYTES:
            raise _refused(constraint, f"it is larger than {MOST_BYTES:,} bytes")
        try:
            import llguidance
        except ImportError as error:
            raise Refused(
                Refusal(
                    "grammar_not_installed",
                    f"'{constraint.param}' needs llguidance, which is not installed",
                    'pip install "tf-plugins[grammar]"',
                    param=constraint.param,
                )
            ) from error
        try:
            grammar = _llguidance_grammar(constraint)
        except Exception as error:  # the converter of GBNF raises bare ones
            raise _refused(constraint, str(error)) from error
        limits = llguidance.LLParserLimits(
            initial_lexer_fuel=1_000_000, max_grammar_size=200_000, max_lexer_states=100_000, verbose_errors=False
        )
        matcher = llguidance.LLMatcher(self._ready(), grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise _refused(constraint, matcher.get_error())
        return GrammarRun(matcher, self._ends, self._vocab)

    def _ready(self) -> Any:
        """llguidance's form of the tokenizer, made on first use."""
        import llguidance

        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = llguidance.LLTokenizer(
                    self._backend.to_str(), n_vocab=self._vocab, eos_token=sorted(self._ends)
                )
        return self._tokenizer


def call_grammar(start: str, end: str, calls: Sequence[dict[str, Any]], special: frozenset[str]) -> str:
    """A Lark grammar for one tool call.

    Args:
        start, end: the marks around a call, which may be empty.
        calls: JSON schemas of the calls that are possible.
        special: marks that are tokens of their own.
    """
    parts = [_lark_mark(start, special), "call", _lark_mark(end, special)]
    schema = json.dumps({"anyOf": list(calls), "x-guidance": _STYLE})
    line_end = ' "\\n" ' if start else " "
    return f"start: {line_end.join(part for part in parts if part)}\ncall: %json {schema}\n"


def _lark_mark(mark: str, special: frozenset[str]) -> str:
    return mark if mark in special else json.dumps(mark) if mark else ""


def _llguidance_grammar(constraint: Constraint) -> str:
    from llguidance import LLMatcher
    from llguidance.gbnf_to_lark import any_to_lark

    source = constraint.source
    if constraint.kind == "json":
        grammar: str = LLMatcher.grammar_from_json_schema(source, overrides=cast(Any, _STYLE))
    elif constraint.kind == "regex":
        grammar = LLMatcher.grammar_from_regex(source)
    elif constraint.kind == "choice":
        grammar = "start: " + " | ".join(json.dumps(choice) for choice in json.loads(source))
    else:
        grammar = any_to_lark(source)
    return grammar


def _mask_of(tokens: frozenset[int], vocab: int) -> Mask:
    mask = np.zeros(vocab, np.bool_)
    mask[list(tokens)] = True
    return mask


def _refused(constraint: Constraint, reason: str) -> Refused:
    line = " ".join(reason.split())
    return Refused(
        Refusal(
            "invalid_grammar",
            f"'{constraint.param}' cannot be compiled: {line[:500]}",
            "change it, or leave it out",
            param=constraint.param,
        )
    )

"""Constraints on replies, compiled by llguidance."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tf_host.text.grammar_run import Follower, GrammarRun, mask_of, named
from tf_host.text.grammar_source import Constraint, either, llguidance_grammar
from tf_host.text.grammar_tokens import grammar_tokens
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

MOST_BYTES = 1 << 16
"""Of a schema, regular expression or grammar; compiling is quadratic in the worst case."""


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

    def compile(self, constraint: Constraint, instead: Constraint | None = None) -> GrammarRun:
        """The constraint of one reply, at its start.

        Args:
            constraint: what the reply has to be.
            instead: what it may be instead.

        Raises:
            Refused: one of them cannot be compiled or followed, is too large, or llguidance is not installed.
        """
        grammar = self._grammar(constraint)
        run = self._run(grammar, constraint.param)
        if instead is None:
            return run
        other = self._grammar(instead)
        self._run(other, instead.param)  # by itself, so that a refusal names the field at fault
        return self._run(either(grammar, other), constraint.param, instead.param)

    def _grammar(self, constraint: Constraint) -> str:
        """A constraint as llguidance reads it."""
        if len(constraint.source.encode(errors="replace")) > MOST_BYTES:
            raise _refused((constraint.param,), f"it is larger than {MOST_BYTES:,} bytes")
        try:
            return llguidance_grammar(constraint)
        except ImportError as error:
            raise Refused(
                Refusal(
                    "grammar_not_installed",
                    f"'{constraint.param}' needs llguidance, which is not installed",
                    'pip install "tf-plugins[grammar]"',
                    param=constraint.param,
                )
            ) from error
        except Exception as error:  # the converter of GBNF raises bare ones
            raise _refused((constraint.param,), str(error)) from error

    def _run(self, grammar: str, *fields: str) -> GrammarRun:
        """A grammar at the start of a reply."""
        import llguidance

        limits = llguidance.LLParserLimits(
            initial_lexer_fuel=1_000_000, max_grammar_size=200_000, max_lexer_states=100_000, verbose_errors=False
        )

        def matcher() -> Any:
            made = llguidance.LLMatcher(self._ready(fields[0]), grammar, log_level=0, limits=limits)
            if made.is_error():
                raise _refused(fields, made.get_error())
            return made

        self._try(matcher(), *fields)
        return GrammarRun(matcher(), matcher(), self._ends, self._vocab, *fields)

    def _try(self, matcher: Any, *fields: str) -> None:
        """Refuse what compiles and cannot be followed: what compiling leaves out is done at the first token."""
        follower = Follower(matcher, self._ends, self._vocab, fields)
        try:
            text = follower.mask() & ~mask_of(self._ends, self._vocab)
            token = int(text.argmax())
            if text[token]:
                follower.take(token)
        except Refused as error:
            found = matcher.get_error()
            if not found or found.startswith("NoExtension"):
                raise _refused(fields, "no text satisfies it") from error
            raise _refused(fields, f"it is too complex to follow: {found}") from error

    def _ready(self, param: str) -> Any:
        """llguidance's form of the tokenizer, made on first use."""
        with self._lock:
            if self._tokenizer is None:
                try:
                    self._tokenizer = grammar_tokens(self._backend, self._ends, self._vocab)
                except Exception as error:  # llguidance and its tokenizers raise bare ones
                    reason = f"'{param}' needs a tokenizer that spells text in bytes, and this model's does not"
                    hint = "leave it out, or serve another model"
                    raise Refused(Refusal("grammar_not_supported", reason, hint, param=param)) from error
        return self._tokenizer


def _refused(fields: Sequence[str], reason: str) -> Refused:
    line = " ".join(reason.removesuffix("<non-verbose/>").split())
    return Refused(
        Refusal(
            "invalid_grammar",
            f"{named(fields)} cannot be compiled: {line[:500]}",
            "change it, or leave it out",
            param=fields[0],
        )
    )

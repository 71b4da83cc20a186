"""Constraints on replies, compiled by llguidance."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_host.text.grammar_source import Constraint, either, llguidance_grammar
from tf_host.text.grammar_tokens import grammar_tokens
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

Mask = NDArray[np.bool_]

MOST_BYTES = 1 << 16
"""Of a schema, regular expression or grammar; compiling is quadratic in the worst case."""

_MOST_FORCED = 64
"""Tokens; more than any round verifies, and a constraint may force thousands."""


class GrammarRun:
    """One reply's constraint; implements ``tf_host.requests.Grammar``.

    Its methods raise ``Refused`` where the constraint turns out to be past llguidance's limits.

    Args:
        matcher: a fresh llguidance matcher.
        ends: tokens that end a reply; allowed only where the value is complete.
        vocab: length of a mask.
        fields: the request fields that the constraint came from.
    """

    def __init__(self, matcher: Any, ends: frozenset[int], vocab: int, *fields: str) -> None:
        self._matcher = matcher
        self._ends = ends
        self._vocab = vocab
        self._fields = fields
        self._done = False
        self._only_ends = _mask_of(ends, vocab)

    def mask(self, path: tuple[int, ...]) -> Mask | None:
        """Allowed ids after the committed tokens and ``path``; ``None`` behind a path that cannot land."""
        if self._done:
            return self._only_ends
        until = next((at for at, token in enumerate(path) if token in self._ends), len(path))
        taken: int = self._matcher.try_consume_tokens(list(path[:until]))
        try:
            self._check()
            if taken < until:
                return None
            if until == len(path):
                return self._mask()
            # A reply that ignores its end goes on behind it, with more of them.
            return self._only_ends if until + 1 == len(path) and self._complete() else None
        finally:
            self._matcher.rollback(taken)

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft would be accepted; a token behind an end is none of them."""
        if self._done:
            return 0
        until = next((at for at, token in enumerate(draft) if token in self._ends), len(draft))
        path = list(draft[:until])
        allowed: int = self._matcher.validate_tokens(path)
        if allowed < until or until == len(draft):
            return allowed
        taken: int = self._matcher.try_consume_tokens(path)
        complete = taken == until and self._complete()
        self._matcher.rollback(taken)
        return until + complete

    def commit(self, tokens: tuple[int, ...]) -> None:
        """Tokens that became part of the reply; ``ValueError`` for one that is not allowed."""
        for token in tokens:
            if self._done:
                return
            if token in self._ends and self._complete():
                self._done = True
                return
            if token in self._ends or self._matcher.validate_tokens([token]) == 0:
                self._check()
                raise ValueError(f"the grammar does not allow token {token}")
            self._matcher.consume_token(token)
            self._check()

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next."""
        if self._done:
            return ()
        tokens = tuple(self._matcher.compute_ff_tokens()[:_MOST_FORCED])
        return tokens[: self.allowed_prefix(tokens)]

    def _complete(self) -> bool:
        return not self._matcher.is_error() and (self._matcher.is_stopped() or self._matcher.is_accepting())

    def _mask(self) -> Mask:
        if self._matcher.is_stopped():
            return self._only_ends
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.unpackbits(bits, count=self._vocab, bitorder="little").astype(np.bool_)
        if not self._complete():
            mask &= ~self._only_ends
        if not mask.any():
            raise self._failed("allows nothing more before its value is complete")
        return mask

    def _check(self) -> None:
        """What one token allowed and the next step found too large."""
        if self._matcher.is_error():
            raise self._failed("is too complex to follow") from ValueError(self._matcher.get_error())

    def _failed(self, what: str) -> Refused:
        reason = f"{_named(self._fields)} {what}"
        return Refused(Refusal("grammar_failed", reason, "make it simpler", param=self._fields[0]))


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
        matcher = llguidance.LLMatcher(self._ready(fields[0]), grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise _refused(fields, matcher.get_error())
        self._try(matcher.deep_copy(), *fields)
        return GrammarRun(matcher, self._ends, self._vocab, *fields)

    def _try(self, matcher: Any, *fields: str) -> None:
        """Refuse what compiles and cannot be followed: what compiling leaves out is done at the first token."""
        run = GrammarRun(matcher, self._ends, self._vocab, *fields)
        try:
            first = run.mask(())
            assert first is not None  # behind no path
            text = first & ~_mask_of(self._ends, self._vocab)
            token = int(text.argmax())
            if text[token]:
                run.commit((token,))
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


def _mask_of(tokens: frozenset[int], vocab: int) -> Mask:
    mask = np.zeros(vocab, np.bool_)
    mask[list(tokens)] = True
    return mask


def _named(fields: Sequence[str]) -> str:
    return " or ".join(f"'{field}'" for field in fields)


def _refused(fields: Sequence[str], reason: str) -> Refused:
    line = " ".join(reason.removesuffix("<non-verbose/>").split())
    return Refused(
        Refusal(
            "invalid_grammar",
            f"{_named(fields)} cannot be compiled: {line[:500]}",
            "change it, or leave it out",
            param=fields[0],
        )
    )

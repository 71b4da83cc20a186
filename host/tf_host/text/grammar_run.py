"""A constraint along one reply."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_plugins.errors import Refused
from tf_plugins.types import Refusal

log = logging.getLogger(__name__)

Mask = NDArray[np.bool_]

_MOST_FORCED = 64
"""Tokens; more than any round verifies, and a constraint may force thousands."""


class GrammarRun:
    """One reply's constraint; implements ``tf_host.requests.Grammar``.

    The reply is followed by a matcher of its own, drafts are tried on another: llguidance's limits count whatever was
    computed, also along a path that was rolled back, and a draft must not end a reply that goes on without it. For the
    same reason a reply that lands several tokens at once is followed as one that lands them one by one.

    Args:
        own: a fresh llguidance matcher.
        ahead: another, of the same constraint.
        ends: tokens that end a reply; allowed only where the value is complete.
        vocab: length of a mask.
        fields: the request fields that the constraint came from.
    """

    def __init__(self, own: Any, ahead: Any, ends: frozenset[int], vocab: int, *fields: str) -> None:
        self._own = Follower(own, ends, vocab, fields)
        self._ahead: Follower | None = Follower(ahead, ends, vocab, fields)
        self._ends = ends
        self._done = False
        self._only_ends = mask_of(ends, vocab)

    def mask(self, path: tuple[int, ...]) -> Mask:
        """Allowed ids after the committed tokens and ``path``, of which ``allowed_prefix`` accepted all.

        Raises ``Refused`` where the constraint turns out to be past llguidance's limits there.
        """
        if self._done:
            return self._only_ends
        if not path:
            return self._own.mask()
        until = next((at for at, token in enumerate(path) if token in self._ends), len(path))
        too_far = self._own.failed("is too complex to look ahead in")
        if self._ahead is None:
            raise too_far
        try:
            with self._ahead.tried(path[:until]) as taken:
                # A matcher past its limits may accept less than it did a moment ago.
                if taken == until == len(path):
                    return self._ahead.mask()
                if taken == until == len(path) - 1 and self._ahead.complete:
                    # A reply that ignores its end goes on behind it, with more of them.
                    return self._only_ends
                raise too_far
        except Exception as error:
            self._stop_looking(error)
            raise

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft would be accepted; a token behind an end is none of them."""
        if self._done or self._ahead is None:
            return 0
        until = next((at for at, token in enumerate(draft) if token in self._ends), len(draft))
        try:
            with self._ahead.tried(draft[:until]) as taken:
                return taken + (taken == until < len(draft) and self._ahead.complete)
        except Exception as error:
            self._stop_looking(error)
            return 0

    def commit(self, tokens: tuple[int, ...]) -> None:
        """Tokens that became part of the reply; ``ValueError`` for one that is not allowed.

        Raises ``Refused`` where the constraint turns out to be past llguidance's limits.
        """
        for at, token in enumerate(tokens):
            if self._done:
                return
            if at:
                self._own.look()
            self._done = self._own.take(token)
            if self._ahead is not None:
                try:
                    self._ahead.take(token)
                except Exception as error:
                    self._stop_looking(error)

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next."""
        if self._done or self._ahead is None:
            return ()
        try:
            tokens = self._ahead.forced()
        except Exception as error:
            self._stop_looking(error)
            return ()
        return tokens[: self.allowed_prefix(tokens)]

    def _stop_looking(self, error: Exception) -> None:
        """No drafts any more for this reply; what they need is past a limit that the reply may never meet."""
        log.debug("a constraint takes no more drafts: %s", error)
        self._ahead = None


class Follower:
    """One matcher and the tokens it has taken.

    Args:
        matcher: a fresh llguidance matcher.
        ends: tokens that end a reply.
        vocab: length of a mask.
        fields: the request fields that the constraint came from.
    """

    def __init__(self, matcher: Any, ends: frozenset[int], vocab: int, fields: Sequence[str]) -> None:
        self._matcher = matcher
        self._ends = ends
        self._vocab = vocab
        self._fields = fields
        self._only_ends = mask_of(ends, vocab)

    @property
    def complete(self) -> bool:
        """Whether the value may end here."""
        return not self._matcher.is_error() and (self._matcher.is_stopped() or self._matcher.is_accepting())

    def mask(self) -> Mask:
        """Allowed ids next; ``Refused`` past llguidance's limits, and where nothing is left to say."""
        bits = self.look()
        if bits is None:
            return self._only_ends
        mask = np.unpackbits(np.frombuffer(bits, np.uint8), count=self._vocab, bitorder="little").astype(np.bool_)
        if not self.complete:
            mask &= ~self._only_ends
        if not mask.any():
            raise self.failed("allows nothing more before its value is complete")
        return mask

    def look(self) -> bytes | None:
        """A bit for each id that is allowed next; ``None`` where the value is over. ``Refused`` past limits."""
        self._check()
        if self._matcher.is_stopped():
            return None
        bits: bytes = self._matcher.compute_bitmask()
        self._check()
        return bits

    def take(self, token: int) -> bool:
        """Go on with a token, and say whether it ended the value; ``ValueError`` for one that is not allowed."""
        if token in self._ends and self.complete:
            return True
        if token in self._ends or self._matcher.validate_tokens([token]) == 0:
            self._check()
            raise ValueError(f"the grammar does not allow token {token}")
        self._matcher.consume_token(token)
        self._check()
        return False

    @contextmanager
    def tried(self, path: Sequence[int]) -> Iterator[int]:
        """As if it had taken a path, as far as that is allowed: so many tokens of it."""
        taken: int = 0 if self._matcher.is_stopped() else self._matcher.try_consume_tokens(list(path))
        try:
            self._check()
            yield taken
        finally:
            self._matcher.rollback(taken)

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next, as the matcher sees it."""
        return tuple(self._matcher.compute_ff_tokens()[:_MOST_FORCED])

    def failed(self, what: str) -> Refused:
        """A refusal that names the fields."""
        reason = f"{named(self._fields)} {what}"
        return Refused(Refusal("grammar_failed", reason, "make it simpler", param=self._fields[0]))

    def _check(self) -> None:
        """What one token allowed and the next step found too large."""
        if self._matcher.is_error():
            raise self.failed("is too complex to follow") from ValueError(self._matcher.get_error())


def mask_of(tokens: frozenset[int], vocab: int) -> Mask:
    """A mask ``[vocab]`` of these tokens alone."""
    mask = np.zeros(vocab, np.bool_)
    mask[list(tokens)] = True
    return mask


def named(fields: Sequence[str]) -> str:
    """Request fields as a sentence names them."""
    return " or ".join(f"'{field}'" for field in fields)

"""A constraint that waits for the end of the reasoning, and a limit on how long that may take."""

from __future__ import annotations

import numpy as np

from tf_host.requests.request import Grammar
from tf_host.text.grammar_run import Mask
from tf_host.text.thinking import Phase, ThinkingMarks
from tf_host.text.thinking_tokens import Place, ThinkingTokens


class ThinkingGate:
    """Implements ``tf_host.requests.Grammar``: anything while the model thinks, then ``inner``.

    Args:
        marks: the marks around reasoning.
        phase: ``"open"`` where the prompt ends inside the reasoning, ``"start"`` where the reply may begin with it.
        inner: the constraint on the answer, or ``None``.
        budget: most reasoning tokens before the end mark is forced, or ``None``.
        ends: tokens that end a reply; not allowed in the reasoning where an answer has to come.
        vocab: length of a mask.
    """

    def __init__(
        self,
        marks: ThinkingMarks,
        phase: Phase,
        inner: Grammar | None,
        *,
        budget: int | None,
        ends: frozenset[int],
        vocab: int,
    ) -> None:
        self._marks = marks
        self._tokens = ThinkingTokens(marks, blanks=inner is None)  # a constraint may begin with white space itself
        self._inner = inner
        self._budget = budget
        self._vocab = vocab
        self._state = Place(phase)
        self._thinking: Mask | None = None
        if inner is not None:
            self._thinking = np.ones(vocab, np.bool_)
            self._thinking[[token for token in ends if token < vocab]] = False

    def mask(self, path: tuple[int, ...]) -> object | None:
        """Allowed ids after the committed tokens and ``path``."""
        state, answer = self._walk(path)
        if state.phase == "closed":
            return None if self._inner is None else self._inner.mask(answer)
        if forced := self._forced(state):
            return self._only(forced[0])
        return self._first_mask() if state.phase == "start" else self._thinking

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft would be accepted."""
        state = self._state
        for at, token in enumerate(draft):
            if (forced := self._forced(state)) and token != forced[0]:
                return at
            if state.phase == "open" and not self._may_think(token):
                return at
            following = self._tokens.after(state, token)
            if state.phase == "closed" or (state.phase == "start" and following.phase == "closed"):
                return at + self._inner_prefix(draft[at:])
            state = following
        return len(draft)

    def commit(self, tokens: tuple[int, ...]) -> None:
        """Tokens that became part of the reply."""
        state, answer = self._walk(tokens)
        self._state = state
        if answer and self._inner is not None:
            self._inner.commit(answer)

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next."""
        if self._state.phase == "closed":
            return () if self._inner is None else self._inner.forced()
        return self._forced(self._state)

    def _inner_prefix(self, draft: tuple[int, ...]) -> int:
        return len(draft) if self._inner is None else self._inner.allowed_prefix(draft)

    def _walk(self, path: tuple[int, ...]) -> tuple[Place, tuple[int, ...]]:
        """The state behind a path, and the path's tokens that belong to the answer."""
        state = self._state
        for at, token in enumerate(path):
            if state.phase == "closed":
                return state, path[at:]
            was, state = state, self._tokens.after(state, token)
            if was.phase == "start" and state.phase == "closed":
                return state, path[at:]
        return state, ()

    def _forced(self, state: Place) -> tuple[int, ...]:
        """What is left of the end mark once the budget is spent, or of a start mark that no answer begins with."""
        if state.phase == "open" and self._budget is not None and state.thought - state.matched >= self._budget:
            return self._marks.end_ids[state.matched :]
        if state.phase == "start" and state.matched and self._inner is not None:
            return self._marks.start_ids[state.matched :]
        return ()

    def _may_think(self, token: int) -> bool:
        return self._thinking is None or bool(0 <= token < self._vocab and self._thinking[token])

    def _first_mask(self) -> object | None:
        """The reply's first token: the start mark, or the answer's first."""
        mask = None if self._inner is None else self._inner.mask(())
        if mask is None:
            return mask
        widened = np.array(mask)
        widened[self._marks.start_ids[0]] = True
        return widened

    def _only(self, token: int) -> Mask:
        mask = np.zeros(self._vocab, np.bool_)
        mask[token] = True
        return mask

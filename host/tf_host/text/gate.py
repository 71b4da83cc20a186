"""A constraint that waits for the end of the reasoning, and a limit on how long that may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tf_host.requests.request import Grammar
from tf_host.text.grammar_run import Mask
from tf_host.text.stops import advance, borders
from tf_host.text.thinking import Phase, ThinkingMarks


@dataclass(frozen=True, slots=True)
class _State:
    """Where a path is: its phase, the reasoning tokens so far, and how much of the end mark was just written."""

    phase: Phase
    thought: int = 0
    matched: int = 0


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
        self._borders = borders(marks.end_ids)
        self._inner = inner
        self._budget = budget
        self._vocab = vocab
        self._state = _State(phase)
        self._thinking: Mask | None = None
        if inner is not None:
            self._thinking = np.ones(vocab, np.bool_)
            self._thinking[[token for token in ends if token < vocab]] = False

    def mask(self, path: tuple[int, ...]) -> object | None:
        """Allowed ids after the committed tokens and ``path``."""
        state, answer = self._walk(path)
        if state.phase == "closed":
            return None if self._inner is None else self._inner.mask(answer)
        if state.phase == "start":
            return self._first_mask()
        if (forced := self._forced_end(state)) is not None:
            return self._only(forced[0])
        return self._thinking

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft would be accepted."""
        state = self._state
        for at, token in enumerate(draft):
            if state.phase == "closed" or (state.phase == "start" and token != self._marks.start_id):
                return at + self._inner_prefix(draft[at:])
            if state.phase == "open" and not self._may_think(state, token):
                return at
            state = self._next(state, token)
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
        return () if self._state.phase == "start" else self._forced_end(self._state) or ()

    def _inner_prefix(self, draft: tuple[int, ...]) -> int:
        return len(draft) if self._inner is None else self._inner.allowed_prefix(draft)

    def _walk(self, path: tuple[int, ...]) -> tuple[_State, tuple[int, ...]]:
        """The state behind a path, and the path's tokens that belong to the answer."""
        state = self._state
        for at, token in enumerate(path):
            if state.phase == "closed":
                return state, path[at:]
            was, state = state, self._next(state, token)
            if was.phase == "start" and state.phase == "closed":
                return state, path[at:]
        return state, ()

    def _next(self, state: _State, token: int) -> _State:
        if state.phase == "start":
            return _State("open" if token == self._marks.start_id else "closed")
        if state.phase == "closed":
            return state
        matched = advance(self._marks.end_ids, self._borders, state.matched, token)
        if matched == len(self._marks.end_ids):
            return _State("closed")
        return replace(state, thought=state.thought + 1, matched=matched)

    def _forced_end(self, state: _State) -> tuple[int, ...] | None:
        """What is left of the end mark once the budget is spent."""
        if self._budget is None or state.thought - state.matched < self._budget:
            return None
        return self._marks.end_ids[state.matched :]

    def _may_think(self, state: _State, token: int) -> bool:
        if (forced := self._forced_end(state)) is not None:
            return token == forced[0]
        return self._thinking is None or bool(0 <= token < self._vocab and self._thinking[token])

    def _first_mask(self) -> object | None:
        """The reply's first token: the start mark, or the answer's first."""
        mask = None if self._inner is None else self._inner.mask(())
        if mask is None or self._marks.start_id is None:
            return mask
        widened = np.array(mask)
        widened[self._marks.start_id] = True
        return widened

    def _only(self, token: int) -> Mask:
        mask = np.zeros(self._vocab, np.bool_)
        mask[token] = True
        return mask

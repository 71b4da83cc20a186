"""Anything while the model thinks, then the constraint."""

from __future__ import annotations

import numpy as np
import pytest

from tests.host.text.test_grammar import compiled
from tf_host.text import Text, ThinkingGate, ThinkingMarks, reasoning_tokens


def gate_of(text: Text, phase: str, *, inner: bool = True, budget: int | None = None) -> ThinkingGate:
    assert text.thinking is not None
    constraint = compiled(text, "regex", "ab?") if inner else None
    return ThinkingGate(
        text.thinking,
        phase,
        constraint,
        budget=budget,
        ends=text.end_ids,
        vocab=text.vocab,  # type: ignore[arg-type]
    )


@pytest.fixture
def ids(text: Text) -> dict[str, int]:
    names = {"<think>": "open", "</think>": "close"}
    found = {short: text.encode(name)[0] for name, short in names.items()}
    return found | {char: text.encode(char, special=False)[0] for char in "abx"}


def test_nothing_is_masked_inside_but_ends(text: Text, ids: dict[str, int]) -> None:
    gate = gate_of(text, "open")
    mask = gate.mask((ids["x"],))
    assert set(np.flatnonzero(~np.array(mask))) == text.end_ids
    assert set(np.flatnonzero(gate.mask((ids["x"], ids["close"])))) == {ids["a"]}
    assert set(np.flatnonzero(gate.mask((ids["close"], ids["a"])))) == {ids["b"]} | text.end_ids
    assert gate.forced() == ()


def test_drafts_cross_the_end_of_the_reasoning(text: Text, ids: dict[str, int]) -> None:
    gate = gate_of(text, "open")
    x, close, a, b = (ids[name] for name in ("x", "close", "a", "b"))
    assert gate.allowed_prefix((x, x, close, a, b)) == 5
    assert gate.allowed_prefix((x, close, x)) == 2
    assert gate.allowed_prefix((x, min(text.end_ids), x)) == 1
    gate.commit((x, close, a))
    assert gate.allowed_prefix((x,)) == 0
    assert gate.allowed_prefix((b,)) == 1


def test_a_reply_may_begin_with_either(text: Text, ids: dict[str, int]) -> None:
    gate = gate_of(text, "start")
    assert set(np.flatnonzero(gate.mask(()))) == {ids["open"], ids["a"]}
    assert gate.allowed_prefix((ids["a"], ids["b"])) == 2
    assert gate.allowed_prefix((ids["open"], ids["x"], ids["close"], ids["a"])) == 4
    assert gate.allowed_prefix((ids["x"],)) == 0
    assert set(np.flatnonzero(gate.mask((ids["a"],)))) == {ids["b"]} | text.end_ids
    gate.commit((ids["a"],))
    assert set(np.flatnonzero(gate.mask(()))) == {ids["b"]} | text.end_ids


def test_a_spent_budget_forces_the_end(text: Text, ids: dict[str, int]) -> None:
    gate = gate_of(text, "open", inner=False, budget=2)
    x, close = ids["x"], ids["close"]
    assert gate.mask((x,)) is None
    assert set(np.flatnonzero(gate.mask((x, x)))) == {close}
    assert gate.mask((x, x, close)) is None
    assert gate.allowed_prefix((x, x, x)) == 2
    assert gate.forced() == ()
    gate.commit((x, x))
    assert gate.forced() == (close,)
    gate.commit((close, x))
    assert gate.mask(()) is None
    assert gate.forced() == ()


def test_no_budget_at_all(text: Text, ids: dict[str, int]) -> None:
    gate = gate_of(text, "open", budget=0)
    assert gate.forced() == (ids["close"],)
    assert set(np.flatnonzero(gate.mask(()))) == {ids["close"]}


def test_an_end_mark_of_several_tokens(text: Text, ids: dict[str, int]) -> None:
    a, b, x = ids["a"], ids["b"], ids["x"]
    marks = ThinkingMarks("<", "aab", (x,), (a, a, b))
    gate = ThinkingGate(marks, "open", None, budget=3, ends=frozenset(), vocab=text.vocab)
    assert gate.mask((a, a, a)) is None  # the last two may still become the mark
    assert set(np.flatnonzero(gate.mask((x, x, x)))) == {a}
    assert set(np.flatnonzero(gate.mask((x, x, x, a)))) == {a}
    assert gate.mask((x, a, a, b)) is None
    gate.commit((a, a, a, b))
    assert gate.forced() == ()
    assert gate.mask((x,) * 9) is None


@pytest.mark.parametrize("budget", [0, 2])
def test_a_budget_holds_where_white_space_comes_before_the_reasoning(
    text: Text, ids: dict[str, int], budget: int
) -> None:
    gate = gate_of(text, "start", inner=False, budget=budget)
    blank, x, close = text.encode(" ", special=False)[0], ids["x"], ids["close"]
    before = (blank, blank, ids["open"], *(x,) * budget)
    assert gate.mask(before[:2]) is None
    assert gate.allowed_prefix((*before, x)) == len(before)
    assert set(np.flatnonzero(gate.mask(before))) == {close}
    gate.commit(before)
    assert gate.forced() == (close,)
    assert text.thinking is not None
    assert reasoning_tokens((*before, close, x), text.thinking, "start") == budget


def test_a_start_mark_of_several_tokens(text: Text, ids: dict[str, int]) -> None:
    a, b, x, close = ids["a"], ids["b"], ids["x"], ids["close"]
    marks = ThinkingMarks("xa", "</think>", (x, a), (close,))
    gate = ThinkingGate(marks, "start", None, budget=1, ends=frozenset(), vocab=text.vocab)
    assert gate.mask((x,)) is None
    assert gate.mask((x, b, b, b)) is None
    assert set(np.flatnonzero(gate.mask((x, a, b)))) == {close}
    assert reasoning_tokens((x, a, b, b), marks, "start") == 2
    assert reasoning_tokens((x, b, b), marks, "start") == 0
    inner = compiled(text, "regex", "ab?")
    gate = ThinkingGate(marks, "start", inner, budget=1, ends=text.end_ids, vocab=text.vocab)
    assert set(np.flatnonzero(gate.mask(()))) == {x, a}
    assert set(np.flatnonzero(gate.mask((x,)))) == {a}
    assert gate.allowed_prefix((x, b)) == 1
    assert gate.allowed_prefix((x, a, b, close, a, b)) == 6
    gate.commit((x,))
    assert gate.forced() == (a,)


def test_reasoning_tokens_are_those_between_the_marks(text: Text, ids: dict[str, int]) -> None:
    assert text.thinking is not None
    a, open_, close = ids["a"], ids["open"], ids["close"]
    for reply, phase, tokens in (
        ((open_, a, a, close, a), "start", 2),
        ((open_, a, a), "start", 2),
        ((a, open_, a, close), "start", 0),
        ((a, a, close, a), "open", 2),
        ((close, a), "open", 0),
        ((a, close), "closed", 0),
    ):
        assert reasoning_tokens(reply, text.thinking, phase) == tokens  # type: ignore[arg-type]

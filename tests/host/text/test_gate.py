"""Anything while the model thinks, then the constraint."""

from __future__ import annotations

import numpy as np
import pytest

from tests.host.text.test_grammar import compiled
from tf_host.text import Text, ThinkingGate, ThinkingMarks


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
    marks = ThinkingMarks("<", "aab", (a, a, b), None)
    gate = ThinkingGate(marks, "open", None, budget=3, ends=frozenset(), vocab=text.vocab)
    assert gate.mask((a, a, a)) is None  # the last two may still become the mark
    assert set(np.flatnonzero(gate.mask((x, x, x)))) == {a}
    assert set(np.flatnonzero(gate.mask((x, x, x, a)))) == {a}
    assert gate.mask((x, a, a, b)) is None
    gate.commit((a, a, a, b))
    assert gate.forced() == ()
    assert gate.mask((x,) * 9) is None

"""Constraints: what a mask allows is what may be committed, along every path."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import tiny_tokenizer
from tf_host.text import Constraint, GrammarRun, Grammars, Text, call_grammar, load_text
from tf_plugins.errors import Refused

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "東京"]}, "days": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def compiled(text: Text, kind: str = "json", source: Any = SCHEMA) -> GrammarRun:
    return text.grammars.compile(Constraint(kind, source if isinstance(source, str) else json.dumps(source), "field"))  # type: ignore[arg-type]


def walk(grammar: Any, vocab: int, ends: frozenset[int], seed: int, most: int = 200) -> list[int]:
    """A reply of random allowed tokens."""
    rng, reply = random.Random(seed), []
    for _ in range(most):
        mask = grammar.mask(())
        token = rng.choice(range(vocab) if mask is None else list(np.flatnonzero(mask)))
        reply.append(int(token))
        grammar.commit((int(token),))
        if token in ends:
            break
    return reply


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_drawn_is_a_value(text: Text, seed: int) -> None:
    reply = walk(compiled(text), text.vocab, text.end_ids, seed)
    assert reply[-1] in text.end_ids
    value = json.loads(text.decode(reply[:-1]))
    assert set(value) == {"city", "days"}
    assert value["city"] in SCHEMA["properties"]["city"]["enum"]  # type: ignore[index]
    assert 0 <= value["days"] <= 99


@pytest.mark.parametrize("seed", range(5))
def test_a_mask_along_a_path_is_the_mask_after_committing_it(text: Text, seed: int) -> None:
    reply = walk(compiled(text), text.vocab, text.end_ids, seed)
    stepped, along = compiled(text), compiled(text)
    for at in range(len(reply)):
        for ahead in range(5):
            path = tuple(reply[at : at + ahead])
            if set(path[:-1]) & text.end_ids:
                assert along.mask(path) is None  # nothing is drafted behind an end
                continue
            fresh = compiled(text)
            fresh.commit(tuple(reply[:at]) + path)
            assert np.array_equal(along.mask(path), fresh.mask(()))
        stepped.commit((reply[at],))
        along.commit((reply[at],))
        assert np.array_equal(stepped.mask(()), along.mask(()))


@pytest.mark.parametrize("seed", range(5))
def test_a_prefix_is_allowed_as_far_as_its_masks_go(text: Text, seed: int) -> None:
    rng, run = random.Random(seed), compiled(text)
    reply = walk(compiled(text), text.vocab, text.end_ids, seed)
    for at in range(len(reply)):
        draft = list(reply[at : at + 6])
        if rng.random() < 0.7:
            draft[rng.randrange(len(draft))] = rng.randrange(text.vocab)
        allowed = run.allowed_prefix(tuple(draft))
        for count in range(allowed):
            mask = run.mask(tuple(draft[:count]))
            assert mask is not None
            assert mask[draft[count]]
        if allowed < len(draft) and not set(draft[:allowed]) & text.end_ids:
            mask = run.mask(tuple(draft[:allowed]))
            assert mask is not None
            assert not mask[draft[allowed]]
        run.commit((reply[at],))


def test_an_end_is_allowed_only_where_the_value_is_complete(text: Text) -> None:
    run = compiled(text, "regex", "ab?")
    a, b = text.encode("a", special=False) + text.encode("b", special=False)
    start, after_a, after_b = run.mask(()), run.mask((a,)), run.mask((a, b))
    assert not start[list(text.end_ids)].any()  # type: ignore[index]
    assert set(np.flatnonzero(after_a)) == {b} | text.end_ids  # type: ignore[arg-type]
    assert set(np.flatnonzero(after_b)) == text.end_ids  # type: ignore[arg-type]
    run.commit((a, min(text.end_ids)))
    assert set(np.flatnonzero(run.mask(()))) == text.end_ids  # type: ignore[arg-type]
    assert run.forced() == ()
    assert run.allowed_prefix((a,)) == 0


def test_what_the_schema_fixes_is_forced(text: Text) -> None:
    run = compiled(text)
    assert text.decode(run.forced()).startswith('{"city')
    run.commit(tuple(text.encode('{"city": "Paris", ', special=False)))
    forced = run.forced()
    assert '"days' in text.decode(forced)
    for at in range(len(forced)):
        mask = run.mask(forced[:at])
        assert mask is not None
        assert mask[forced[at]]


def test_a_token_that_is_not_allowed_is_an_error(text: Text) -> None:
    with pytest.raises(ValueError, match="does not allow token"):
        compiled(text).commit((5,))


@pytest.mark.parametrize(
    ("kind", "source", "value"),
    [
        ("choice", ["yes", "no way"], "no way"),
        ("regex", "[a-c]{3}", "abc"),
        ("grammar", 'start: "x" "y"+', "xyy"),
        ("grammar", 'root ::= "x" | "z"', "z"),
        ("json", {"type": "object"}, '{"a": [1, {"b": null}]}'),
    ],
)
def test_every_kind(text: Text, kind: str, source: Any, value: str) -> None:
    run = compiled(text, kind, source)
    ids = text.encode(value, special=False)
    assert run.allowed_prefix(tuple(ids)) == len(ids)
    assert compiled(text, kind, source).allowed_prefix((text.encode("#", special=False)[0],)) == 0


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        ("json", {"type": "foo"}, "foo"),
        ("json", {"$ref": "#/nowhere"}, "nowhere"),
        ("json", {"not": {"type": "string"}}, "not"),
        ("json", {"$ref": "http://example.org/schema"}, "example.org"),
        ("json", {"type": "integer", "minimum": 5, "maximum": 3}, "greater than"),
        ("json", {"type": "string", "pattern": "("}, "regex"),
        ("regex", "[", "regex"),
        ("regex", "(?=a)b", "look-around"),
        ("grammar", "start: nothing", "nothing"),
        ("grammar", "", "cannot be compiled"),
        ("regex", "a" * (1 << 17), "larger than"),
        ("regex", "\ud800", "cannot be compiled"),
        ("choice", ["\ud800"], "cannot be compiled"),
        ("json", {"$ref": "#"}, "no text satisfies it"),
        ("json", {"anyOf": [{"$ref": "#"}]}, "no text satisfies it"),
        ("json", {"type": "array", "minItems": 1, "items": {"$ref": "#"}}, "too complex to follow"),
        ("grammar", "root ::= root", "no text satisfies it"),
        ("regex", r"[^\s\S]", "no text satisfies it"),
        ("regex", "a{1000000}", "too complex to follow"),
        ("grammar", 'start: "a" <|im_end|> "b"', "names the token <|im_end|>"),
        ("grammar", 'start: "a" <[2]> "b"', "names the token <[2]>"),
        ("grammar", 'start: "<" /</ <[0-9]> // <', "names the token <[0-9]>"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_the_reason(text: Text, kind: str, source: Any, reason: str) -> None:
    with pytest.raises(Refused, match=re.escape(reason)) as caught:
        compiled(text, kind, source)
    assert caught.value.refusal.param == "field"
    assert "non-verbose" not in caught.value.refusal.reason
    assert "\n" not in caught.value.refusal.reason


CONTROL = ["<|im_end|>", "<|im_start|>", "a<|im_end|>b", "</think>", "<|endoftext|><|im_end|>"]


@pytest.mark.parametrize(
    ("kind", "source", "spelled"),
    [
        *[("choice", [value], value) for value in CONTROL],
        *[("json", {"const": value}, json.dumps(value)) for value in CONTROL],
        ("regex", r"<\|im_end\|>", "<|im_end|>"),
        ("grammar", 'start: "<|im_end|>" // <not a token>', "<|im_end|>"),
        ("grammar", r'root ::= "<|im_end" [|] [<>]', "<|im_end|>"),
        ("choice", ["<|im_end|>", "<|im_end|>"], "<|im_end|>"),
    ],
)
def test_a_control_token_that_is_forced_is_spelled_out(text: Text, kind: str, source: Any, spelled: str) -> None:
    for forced in (True, False):
        run, reply = compiled(text, kind, source), []
        while not set(reply) & text.end_ids:
            mask = run.mask(())
            assert mask is not None
            draft = run.forced() if forced else ()
            left = spelled[len(text.decode(reply)) :]
            draft = draft or ((text.encode(left, special=False) if left else sorted(text.end_ids))[0],)
            assert mask[draft[0]]
            run.commit(draft)
            reply.extend(draft)
        control = {text.encode(mark)[0] for mark in ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "</think>")}
        assert not set(reply[:-1]) & control
        assert text.decode(reply[:-1]) == spelled


def test_an_end_that_a_grammar_names_ends_nothing_early(text: Text) -> None:
    """Requests cannot write such a grammar; a reply that ends is complete all the same."""
    end, [a], [b] = text.encode("<|im_end|>")[0], text.encode("a", special=False), text.encode("b", special=False)
    run = compiled(text, "call", f'start: "a" (<[{end}]> | "c") "b"')
    run.commit((a,))
    mask = run.mask(())
    assert mask is not None
    assert set(np.flatnonzero(mask)) == set(text.encode("c", special=False))
    assert run.allowed_prefix((end, b)) == 0
    with pytest.raises(ValueError, match="does not allow token"):
        run.commit((end,))


@pytest.mark.parametrize("make", [tiny_tokenizer.byte_level, tiny_tokenizer.byte_fallback])
def test_control_tokens_of_every_tokenizer_are_spelled_out(tmp_path: Path, make: Any) -> None:
    text = load_text(make(tmp_path))
    for value in ("</s>", "x<unk>", "<|im_end|>", " the"):
        run = compiled(text, "choice", [value])
        forced = run.forced()
        control = {token for token, one in text.tokenizer.added_tokens_decoder.items() if one.special}
        assert forced
        assert not set(forced) & control
        assert value.encode().startswith(b"".join(map(text.piece, forced)))


def test_a_tokenizer_without_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="spells text in bytes") as caught:
        compiled(load_text(tiny_tokenizer.word_piece(tmp_path)))
    assert caught.value.refusal.param == "field"


def test_thousands_of_choices(text: Text) -> None:
    choices = [*map(str, range(5000)), "", 'a\n"\\/é\u2028\x00\x7f', "/x/", "//", "#", "<x>", "🚀"]
    run = compiled(text, "choice", choices)
    end = min(text.end_ids)
    for choice in choices[4990:]:
        reply = (*text.encode(choice, special=False), end)
        assert run.allowed_prefix(reply) == len(reply), choice
        taken = compiled(text, "choice", choices)
        taken.commit(reply[:1])
        taken.mask(())
        taken.commit(reply[1:])
    assert run.allowed_prefix((*text.encode("50000", special=False), end)) == 3


class AllowsAll:
    """What ``Grammars`` asks of llguidance's matcher, for a vocabulary of any size; its value is complete at once."""

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab
        self.consumed: list[int] = []

    def is_error(self) -> bool:
        return False

    def is_stopped(self) -> bool:
        return False

    def is_accepting(self) -> bool:
        return True

    def try_consume_tokens(self, tokens: list[int]) -> int:
        return len(tokens)

    def rollback(self, count: int) -> None:
        pass

    def compute_bitmask(self) -> bytes:
        return b"\xff" * (self._vocab // 8)

    def validate_tokens(self, tokens: list[int]) -> int:
        return len(tokens)

    def consume_token(self, token: int) -> None:
        self.consumed.append(token)


def test_the_first_text_token_is_tried_without_a_list_of_the_vocabulary() -> None:
    vocab, ends = 1 << 20, frozenset({0, 1})
    matcher = AllowsAll(vocab)
    tracemalloc.start()
    try:
        Grammars(None, ends, vocab)._try(matcher, "field")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert matcher.consumed == [2]
    assert peak < 8 * vocab  # some masks of a byte an id; a list of them is 8 bytes an id, and each id an object


def test_a_limit_met_while_a_reply_is_made_names_the_field(text: Text) -> None:
    run = compiled(text, "regex", "b?a{1000000}")
    [a], [b] = text.encode("a", special=False), text.encode("b", special=False)
    run.commit((b,))
    run.mask(())
    with pytest.raises(Refused, match="'field' is too complex to follow") as caught:
        run.commit((a,))
    assert "lexer" not in str(caught.value)
    assert caught.value.refusal.status == 400


def test_without_llguidance_the_extra_is_named(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(Refused, match=r"tf-plugins\[grammar\]"):
        compiled(text)


def test_a_call_between_marks_that_are_tokens(text: Text) -> None:
    start, end = text.encode("<tool_call>")[0], text.encode("</tool_call>")[0]
    lark = call_grammar("<tool_call>", "</tool_call>", [SCHEMA], {"<tool_call>": start, "</tool_call>": end})
    reply = walk(compiled(text, "call", lark), text.vocab, text.end_ids, 3)
    assert (reply[0], reply[-2]) == (start, end)
    assert json.loads(text.decode(reply[1:-2]))["city"]


def test_a_call_between_marks_that_are_text(text: Text) -> None:
    lark = call_grammar("[CALL]", "", [SCHEMA], {})
    reply = walk(compiled(text, "call", lark), text.vocab, text.end_ids, 4)
    assert text.decode(reply[:-1]).startswith("[CALL]\n{")


CALLS = Constraint("call", call_grammar("[CALL]", "", [SCHEMA], {}, "; "), "tools")
CALL = '[CALL]\n{"city": "Paris", "days": 5}'


@pytest.mark.parametrize(
    ("kind", "source", "value"),
    [
        ("json", '{"enum": ["yes"]}', '"yes"'),
        ("regex", "[a-c]{3}", "abc"),
        ("choice", '["yes", "no way"]', "no way"),
        ("grammar", 'start: first\nfirst: "x" second\nsecond: "y"+', "xyy"),
        ("grammar", 'root ::= "x" | "z"', "z"),
    ],
)
def test_a_value_or_calls(text: Text, kind: Any, source: str, value: str) -> None:
    run, end = text.grammars.compile(Constraint(kind, source, "field"), CALLS), min(text.end_ids)
    for whole in (value, CALL, f"{CALL}; {CALL}"):
        ids = (*text.encode(whole, special=False), end)
        assert run.allowed_prefix(ids) == len(ids), whole
    for wrong in (f"{value}; {CALL}", f"{CALL}; {value}", "#"):
        ids = (*text.encode(wrong, special=False), end)
        assert run.allowed_prefix(ids) < len(ids), wrong


@pytest.mark.parametrize("seed", range(6))
def test_drafts_follow_a_value_or_calls(text: Text, seed: int) -> None:
    def fresh() -> GrammarRun:
        return text.grammars.compile(Constraint("json", json.dumps(SCHEMA), "field"), CALLS)

    reply, run = walk(fresh(), text.vocab, text.end_ids, seed), fresh()
    for at in range(0, len(reply), 3):
        forced = run.forced()
        assert tuple(reply[at : at + len(forced)]) == forced
        for ahead in range(4):
            path = tuple(reply[at : at + ahead])
            if text.end_ids.isdisjoint(path):
                stepped = fresh()
                stepped.commit((*reply[:at], *path))
                assert np.array_equal(run.mask(path), stepped.mask(()))
            assert run.allowed_prefix(path) == len(path)
        run.commit(tuple(reply[at : at + 3]))


def test_of_a_value_and_calls_the_one_at_fault_is_named(text: Text) -> None:
    bad = Constraint("call", call_grammar("", "", [{"type": "foo"}], {}), "tools")
    with pytest.raises(Refused, match="'tools' cannot be compiled") as caught:
        text.grammars.compile(Constraint("json", "{}", "field"), bad)
    assert caught.value.refusal.param == "tools"
    for nothing in ('{"$ref": "#"}', '{"type": "foo"}'):  # calls alone would be left
        with pytest.raises(Refused, match="'field' cannot be compiled") as caught:
            text.grammars.compile(Constraint("json", nothing, "field"), CALLS)
        assert caught.value.refusal.param == "field"
    run = text.grammars.compile(Constraint("regex", "b?a{1000000}", "field"), CALLS)
    run.commit(tuple(text.encode("b", special=False)))
    run.mask(())
    with pytest.raises(Refused, match="'field' or 'tools' is too complex to follow"):
        run.commit(tuple(text.encode("a", special=False)))


def test_one_call_or_several(text: Text) -> None:
    one, end = Constraint("call", call_grammar("", "", [{"const": 1}], {}), "tools"), min(text.end_ids)
    several = Constraint("call", call_grammar("", "", [{"const": 1}], {}, "; "), "tools")
    twice = (*text.encode("1; 1", special=False), end)
    assert text.grammars.compile(one).allowed_prefix(twice) == 1
    assert text.grammars.compile(several).allowed_prefix(twice) == len(twice)

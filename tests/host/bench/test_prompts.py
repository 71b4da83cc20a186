"""Prompt files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tf_host.bench.prompts import Prompt, load_prompts
from tf_plugins import SettingsError

OURS = Path(__file__).parents[3] / "benchmarks" / "prompts.jsonl"


def test_our_prompts_are_twenty_four_of_all_kinds() -> None:
    prompts = load_prompts(OURS)
    kinds = Counter(prompt.kind for prompt in prompts)
    assert len(prompts) == 24
    assert set(kinds) == {"chat", "code", "completion", "copy", "list", "language"}
    assert min(kinds.values()) >= 2
    assert {prompt.route for prompt in prompts} == {"/v1/chat/completions", "/v1/completions"}


def test_every_use_of_our_prompts_is_a_new_text_from_its_beginning() -> None:
    for prompt in load_prompts(OURS):
        one, other = (json.dumps(prompt.body(number), ensure_ascii=False) for number in (3, 4))
        assert "{n}" not in one
        system = 100 if '"system"' in one else 0
        assert next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b) < 70 + system


@pytest.mark.parametrize(
    ("prompt", "body"),
    [
        (Prompt("a", "x", text="Chapter {n}\n"), {"prompt": "Chapter 7\n"}),
        (Prompt("a", "x", text="Once"), {"prompt": "7. Once"}),
        (
            Prompt("a", "x", messages=({"role": "system", "content": "S"}, {"role": "user", "content": "U"})),
            {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "7. U"}]},
        ),
        (
            Prompt("a", "x", messages=({"role": "user", "content": '{"a": 1} {n}'},)),
            {"messages": [{"role": "user", "content": '{"a": 1} 7'}]},
        ),
        (
            Prompt("a", "x", messages=({"role": "user", "content": "{n} U"}, {"role": "user", "content": "V"})),
            {"messages": [{"role": "user", "content": "7 U"}, {"role": "user", "content": "V"}]},
        ),
    ],
)
def test_the_number_takes_its_place_or_goes_in_front(prompt: Prompt, body: dict[str, object]) -> None:
    assert prompt.body(7) == body


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"kind": "chat"}',
        '{"id": "a", "prompt": ""}',
        '{"id": "a", "messages": []}',
        '{"id": "a", "messages": ["hi"]}',
        '{"id": "a", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}',
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"id": "ok", "prompt": "x"}\n\n' + line + "\n")
    with pytest.raises(SettingsError, match=r"prompts.jsonl:3: "):
        load_prompts(path)


def test_files_without_prompts_and_doubled_ids_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    with pytest.raises(SettingsError, match="No such file"):
        load_prompts(path)
    path.write_text("\n")
    with pytest.raises(SettingsError, match="no prompt"):
        load_prompts(path)
    path.write_text('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}\n')
    with pytest.raises(SettingsError, match="one id"):
        load_prompts(path)

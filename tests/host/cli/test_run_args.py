"""Whose words are whose on the command line of ``tf-llama-run``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_host.cli.run_args import parse
from tf_plugins import SettingsError


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["--context", "512", "demo", "1,2"], ("--context", "512")),
        (["demo", "--cpu-blas", "none", "1,2"], ("--cpu-blas", "none")),
        (["demo", "--cpu-blas=none", "1,2"], ("--cpu-blas=none",)),
        (["demo", "1,2", "--reprobe"], ("--reprobe",)),
        (["demo", "1,2", "--drafter", "--reprobe"], ("--drafter", "--reprobe")),
        (["demo", "--drafter", "small", "1,2"], ("--drafter", "small")),
    ],
)
def test_a_flag_of_the_server_keeps_its_value(words: list[str], rest: tuple[str, ...]) -> None:
    parsed = parse(words)
    assert (parsed.model, parsed.tokens, parsed.rest) == ("demo", (1, 2), rest)


def test_a_prompt_is_never_mistaken_for_a_word_of_the_command() -> None:
    parsed = parse(["demo", "--prompt", "draft", "draft", "small,5"])
    assert (parsed.prompt, parsed.drafter, parsed.depth) == ("draft", "small", 5)
    parsed = parse(["demo", "--prompt", "--check it", "--max-tokens", "3"])
    assert (parsed.prompt, parsed.check, parsed.max_tokens) == ("--check it", False, 3)


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        (["demo", "1,2"], True),
        (["demo", "1,2", "draft", ",5"], False),
        (["demo", "1,2", "--drafter"], False),
        (["demo", "1,2", "--drafter=small", "--context", "512"], False),
        (["demo", "--check"], False),
    ],
)
def test_a_reply_is_plain_unless_a_drafter_is_asked_for(words: list[str], plain: bool) -> None:
    assert parse(words).plain is plain


def test_ids_come_from_the_line_or_a_file(tmp_path: Path) -> None:
    ids = tuple(range(1_000, 1_300))  # longer than a file name may be
    assert parse(["demo", ",".join(map(str, ids))]).tokens == ids
    path = tmp_path / "ids"
    path.write_text("1, 2\n3")
    assert parse(["demo", str(path)]).tokens == (1, 2, 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo"], "nothing to decode"),
        (["demo", "1", "--prompt", "a"], "both give a prompt"),
        (["demo", "nowhere"], "TOKENS must be a file of ids"),
        (["demo", "1,-2"], "none below 0"),
        (["demo", ","], "at least one id"),
        (["demo", "1", "draft", "small,16"], "N from 1 to 15"),
        (["demo", "1", "draft"], "draft takes DRAFTER,N"),
        (["demo", "1", "draft", ",5", "--drafter"], "both name a drafter"),
        (["demo", "1", "draft", "small,5", "--drafter=other"], "both name a drafter"),
        (["demo", "1", "--temperature", "-1"], "^--temperature must be a number from 0 up, not -1$"),
        (["demo", "1", "--temperature", "nan"], "^--temperature must be a number from 0 up, not nan$"),
        (["demo", "1", "--temperature", "inf"], "^--temperature must be a number from 0 up, not inf$"),
        (["demo", "1", "--max-tokens", "0"], "^--max-tokens must be 1 or more, not 0$"),
    ],
)
def test_what_does_not_fit_is_named(words: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse(words)

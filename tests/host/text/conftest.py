from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import tiny_tokenizer
from tf_host.text import Text, load_text


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(scope="session")
def chatml(folder: Path) -> Text:
    return load_text(tiny_tokenizer.byte_level(folder / "chatml"))


@pytest.fixture(scope="session")
def bare(folder: Path) -> Text:
    return load_text(tiny_tokenizer.byte_level(folder / "bare", template=None))


@pytest.fixture(scope="session")
def kinds(folder: Path) -> dict[str, Text]:
    """One tokenizer of each kind that decodes differently."""
    return {
        "byte level": load_text(tiny_tokenizer.byte_level(folder / "byte_level")),
        "byte fallback": load_text(tiny_tokenizer.byte_fallback(folder / "fallback")),
        "byte fallback, no strip": load_text(tiny_tokenizer.byte_fallback(folder / "no_strip", strip=False)),
        "word piece": load_text(tiny_tokenizer.word_piece(folder / "word_piece")),
    }


@pytest.fixture(scope="session")
def text(folder: Path) -> Text:
    """One with marks of reasoning and of calls."""
    marks = ("<think>", "</think>", "<tool_call>", "</tool_call>")
    return load_text(tiny_tokenizer.byte_level(folder / "marks", extra=marks))

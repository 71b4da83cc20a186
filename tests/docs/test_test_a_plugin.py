"""The examples of the guide on testing, run as they are printed."""

from __future__ import annotations

import inspect
from pathlib import Path

import tf_plugins.testing
from tests.docs.pages import DOCS, blocks, prose
from tests.examples.installing import environment, run

GUIDE = DOCS / "guides" / "test-a-plugin.md"
LOOKBACK = DOCS / "guides" / "write-a-proposer.md"


def test_its_examples_pass(tmp_path: Path) -> None:
    for block in (*blocks(GUIDE), *blocks(LOOKBACK, "python tf_plugin_lookback.py")):
        _, _, file = block.kind.partition(" ")
        (tmp_path / file).write_text(block.text)
    env = environment(tmp_path, tmp_path / "cache")
    output = run("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=tmp_path, env=env)
    assert " passed" in output


def test_every_class_of_the_kit_is_in_the_table() -> None:
    text = prose(GUIDE)
    for name in tf_plugins.testing.__all__:
        if name.endswith("Checks"):
            assert f"| `{name}` |" in text
        elif inspect.isfunction(getattr(tf_plugins.testing, name)) and name != "check_refusal":
            assert f"`{name}`" in text

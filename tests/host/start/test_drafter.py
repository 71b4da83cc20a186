"""A drafter that was asked for and that no plugin in use drafts with stops the start, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.testing.good import Echo, EchoPlugin
from tf_copy.plugin import CopyPlugin
from tf_host.plugins import Found, LoadedPlugin, Plugins
from tf_host.plugins.checks import checked
from tf_host.settings import load
from tf_host.start import compose
from tf_host.testing.family import ByteFamily, BytesPlugin
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_plugins import Plugin, Refused, hookimpl
from tf_plugins.types import Checkpoint, Device, Family, Model, Progress, Proposer, TargetFacts

loaded: list[str] = []


class CountedFamily(ByteFamily):
    """Tells when it loads."""

    def load(self, checkpoint: Checkpoint, device: Device, progress: Progress) -> Model:
        loaded.append(checkpoint.name)
        return super().load(checkpoint, device, progress)


class Bytes(BytesPlugin):
    @hookimpl
    def families(self) -> Sequence[Family]:
        return (CountedFamily(),)


class Takes(Plugin):
    """A third party's drafter."""

    api_version = 1
    drafts_with = frozenset({"house", "bytes"})

    @hookimpl
    def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
        return [Echo()] if target.drafter else []


class Sized(Plugin):
    """Looks at its target, not at the drafter."""

    api_version = 1

    @hookimpl
    def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
        return [Echo(target.context)]


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path))
    loaded.clear()


def started(line: str, device: Device, *kinds: type[Plugin]) -> list[str]:
    """Names of the proposers of a start."""
    used = []
    for kind in (Bytes, *kinds):
        name = kind.__name__.lower()
        found = Found(name, EntryPoint(name, f"{kind.__module__}:{kind.__name__}", "tf_plugins"), "dist", "1.0")
        used.append(LoadedPlugin(found, kind(kind.Settings() if kind.Settings else None), checked(found, kind)[1]))
    settings = load([*line.split(), "--context", "512"]).settings
    composed = compose(settings, device, Plugins(used), lambda doing, done: None)
    try:
        return [proposer.name for proposer in composed.proposers]
    finally:
        composed.close()


def said(device: Device, *kinds: type[Plugin]) -> str:
    with pytest.raises(Refused) as caught:
        started("bytes --drafter=bytes", device, *kinds)
    assert (caught.value.refusal.name, caught.value.refusal.param) == ("drafter_untaken", "--drafter")
    return caught.value.refusal.reason


REASON = "--drafter: a drafter is of the model's own family, and no plugin in use drafts with the family bytes"


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ((), "bytes"),
        ((LlamaDrafterPlugin, CopyPlugin), "bytes, llamadrafterplugin, copyplugin"),
        ((Sized,), "bytes, sized"),
    ],
    ids=["nobody", "another family's drafter", "a lookup of its target's size"],
)
def test_where_none_drafts_with_it_nothing_is_loaded(kinds: tuple[Any, ...], names: str, device: Device) -> None:
    assert said(device, *kinds) == f"{REASON} ({names})"
    assert loaded == []


def test_a_drafter_that_one_takes_is_served(device: Device) -> None:
    assert started("bytes --drafter=bytes", device, CopyPlugin, Takes) == ["copy", "echo"]


def test_without_a_drafter_none_has_to_be_taken(device: Device) -> None:
    assert started("bytes", device, CopyPlugin, EchoPlugin) == ["copy", "echo"]
    assert started("bytes --drafter=bytes --no-drafts", device, CopyPlugin) == []

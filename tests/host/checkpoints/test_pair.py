"""The family, the target and the drafter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from tf_host.checkpoints import Pair, resolve_pair
from tf_host.settings import ServerSettings, load
from tf_plugins import Refused
from tf_plugins.types import NamedCheckpoint, Refusal

Make = Callable[..., Path]


class FakePlugins:
    names = ("family", "copy")

    def __init__(
        self,
        families: list[Any],
        named: list[NamedCheckpoint] | None = None,
        *,
        takes: bool = True,
        unused: tuple[str, ...] = ("spare",),
    ) -> None:
        self._families, self._named, self._takes, self._unused = families, named or [], takes, unused

    def families(self) -> list[Any]:
        return self._families

    def checkpoints(self) -> list[NamedCheckpoint]:
        return self._named

    def unused(self) -> tuple[str, ...]:
        return self._unused

    def draft_with(self, family: str) -> bool:
        return self._takes


def quiet(doing: str, done: float) -> None:
    pass


def chosen(line: str, plugins: FakePlugins) -> Pair:
    return resolve_pair(load(line.split()).settings, plugins, quiet)  # type: ignore[arg-type]


def said(line: str, plugins: FakePlugins) -> str:
    with pytest.raises(Refused) as caught:
        chosen(line, plugins)
    return str(caught.value)


def test_a_plugin_that_is_not_in_use_may_give_the_name() -> None:
    message = said("spare", FakePlugins([]))
    assert message.endswith("\nhint: the plugin spare is installed and not in use: --add-plugins spare")


def test_the_first_family_that_recognises_it(make_folder: Make, make_family: Any) -> None:
    make_folder("m")
    families = [make_family("qwen"), make_family("first", "llama"), make_family("second", "llama")]
    pair = chosen("m", FakePlugins(families))
    assert (pair.family.name, pair.target.name, pair.drafter) == ("first", "m", None)
    assert chosen("m --family second", FakePlugins(families)).family.name == "second"
    assert families[0].reads == []


def test_a_family_that_no_plugin_serves(make_folder: Make, make_family: Any) -> None:
    make_folder("m")
    plugins = FakePlugins([make_family("llama")])
    assert said("m --family lama", plugins) == (
        "--family names 'lama', and the plugins in use serve llama\nhint: did you mean llama?"
    )
    assert said("m --family gpt", FakePlugins([])).startswith("--family names 'gpt', and the plugins in use serve no")


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("qwen2", "a checkpoint of type 'qwen2'"),
        (None, "a folder without config.json"),
        ("", "a checkpoint whose config.json has no model_type"),
    ],
)
def test_a_model_that_no_family_serves(make_folder: Make, make_family: Any, kind: str | None, what: str) -> None:
    make_folder("m", kind)
    hint = "hint: give a checkpoint of such a family, or add the plugin that serves it with --add-plugins"
    message = f"MODEL names m, {what}, which no family in use serves (llama)\n{hint}"
    for line in ("m", "m --family llama"):
        assert said(line, FakePlugins([make_family("llama")])) == message


def test_a_config_that_cannot_be_read(make_folder: Make, make_family: Any) -> None:
    (make_folder("m") / "config.json").write_text("{")
    assert "a folder whose config.json cannot be read" in said("m", FakePlugins([make_family("llama")]))


def test_a_drafter_by_folder(make_folder: Make, make_family: Any) -> None:
    make_folder("m"), make_folder("d")
    family = make_family("llama")
    pair = chosen("m --drafter d", FakePlugins([family]))
    assert pair.drafter is not None
    assert pair.drafter.name == "d"
    assert family.reads == [("m", "target", "m"), ("d", "drafter", "d")]


def test_the_drafter_of_a_name_comes_before_the_checkpoints_own(make_folder: Make, make_family: Any) -> None:
    m, d = make_folder("m"), make_folder("d")
    make_folder("own")
    named = [NamedCheckpoint("demo", lambda _: m, drafter="demo-d"), NamedCheckpoint("demo-d", lambda _: d)]
    pair = chosen("--drafter", FakePlugins([make_family("llama", drafter="own")], named))
    assert pair.drafter is not None
    assert (pair.target.name, pair.drafter.name) == ("demo", "demo-d")


def test_the_checkpoints_own_drafter(make_folder: Make, make_family: Any) -> None:
    make_folder("m"), make_folder("own")
    pair = chosen("m --drafter", FakePlugins([make_family("llama", drafter="own")]))
    assert pair.drafter is not None
    assert pair.drafter.name == "own"


def test_no_drafter_known(make_folder: Make, make_family: Any) -> None:
    make_folder("m")
    assert said("m --drafter", FakePlugins([make_family("llama")])) == (
        "--drafter without a name takes the drafter that goes with the model, and none is known for m\n"
        "hint: name one: tf-serve MODEL --drafter DIR; or leave --drafter out"
    )


def test_a_drafter_that_is_not_there(make_folder: Make, make_family: Any) -> None:
    make_folder("m")
    family = make_family("llama")
    assert said("m --drafter ./none", FakePlugins([family])).startswith(
        "--drafter names ./none, which is no folder here"
    )
    assert family.reads == []


def test_a_drafter_of_another_family(make_folder: Make, make_family: Any) -> None:
    make_folder("m"), make_folder("d", "qwen2")
    plugins = FakePlugins([make_family("llama"), make_family("qwen2")])
    assert said("m --drafter d", plugins) == (
        "--drafter names d, a checkpoint of type 'qwen2', which the family llama does not serve\n"
        "hint: name a drafter of the model's own family, llama, on the same tokenizer"
    )


@pytest.mark.parametrize(
    ("family", "unused", "way"),
    [
        ("llama", ("llama-drafter", "spare"), "--add-plugins llama-drafter"),
        ("llama", ("spare",), "add the plugin that does with --add-plugins"),
        ("house", ("llama-drafter",), "add the plugin that does with --add-plugins"),
    ],
)
def test_a_drafter_that_no_plugin_takes(
    make_folder: Make, make_family: Any, family: str, unused: tuple[str, ...], way: str
) -> None:
    make_folder("m")
    made = make_family(family, "llama")
    plugins = FakePlugins([made], takes=False, unused=unused)
    reason = (
        f"a drafter is of the model's own family, and no plugin in use drafts with the family {family} (family, copy)"
    )
    assert said("m --drafter org/d", plugins) == f"--drafter: {reason}\nhint: {way}, or leave --drafter out"
    Path("tf.toml").write_text('model = "m"\ndrafter = true\n')
    assert said("--settings tf.toml", plugins).startswith(f"tf.toml: drafter: {reason}\n")
    assert made.reads == []
    assert chosen("m --drafter d --no-drafts", plugins).drafter is None
    assert chosen("m", plugins).drafter is None


def test_no_drafts_leaves_the_drafter_out(
    make_folder: Make, make_family: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_folder("m")
    with caplog.at_level(logging.INFO):
        pair = chosen("m --drafter none --no-drafts", FakePlugins([make_family("llama")]))
    assert pair.drafter is None
    assert "--no-drafts: the drafter is left out" in caplog.text


def test_messages_name_the_source(make_folder: Make, make_family: Any, tmp_path: Path) -> None:
    make_folder("m")
    Path("tf.toml").write_text('model = "m"\ndrafter = "/none"\n')
    message = said("--settings tf.toml", FakePlugins([make_family("llama")]))
    assert message.startswith("tf.toml: drafter names /none, which is no folder here")


def test_settings_made_directly_name_flags(make_family: Any) -> None:
    with pytest.raises(Refused, match=r"^MODEL names /none, "):
        resolve_pair(ServerSettings(model="/none"), FakePlugins([make_family("llama")]), quiet)  # type: ignore[arg-type]


def test_hub_weights_are_fetched_only_for_what_is_served(
    make_folder: Make, make_family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(folder: Path, role: str, name: str | None = None) -> None:
        if role == "drafter":
            raise Refused(Refusal("none", f"{role} {folder.name} is not served", "none"))

    def snapshot(repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append(f"{repo} {'weights' if allow_patterns == ['*.safetensors'] else 'facts'}")
        return str(Path(repo.replace("/", "-"), "abc").absolute())

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    make_folder("org-target/abc"), make_folder("org-drafter/abc"), make_folder("org-other/abc", "qwen2")
    plugins = FakePlugins([make_family("llama")])
    said("org/other", plugins)
    said("org/target --drafter org/other", plugins)
    assert asked == ["org/other facts", "org/target facts", "org/other facts"]
    asked.clear()
    early = make_family("llama")
    early.refuse = refuse
    assert said("org/target --drafter org/drafter", FakePlugins([early])) == "drafter abc is not served\nhint: none"
    assert (asked, early.reads) == (["org/target facts", "org/drafter facts"], [])
    asked.clear()
    pair = chosen("org/target --drafter org/drafter", plugins)
    assert asked == ["org/target facts", "org/drafter facts", "org/target weights", "org/drafter weights"]
    assert pair.drafter is not None
    assert (pair.target.name, pair.target.revision, pair.drafter.revision) == ("org/target", "abc", "abc")

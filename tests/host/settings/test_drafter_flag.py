"""`--drafter`, over option orders and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_host.settings import load
from tf_plugins import SettingsError

BARE = ""


@pytest.mark.parametrize(
    ("line", "model", "drafter"),
    [
        ("", "demo", None),
        ("m", "m", None),
        # a value of its own
        ("--drafter=d", "demo", "d"),
        ("--drafter=d m", "m", "d"),
        ("m --drafter=d", "m", "d"),
        ("m --drafter d", "m", "d"),
        ("m --drafter ./d --port 1", "m", "./d"),
        ("m --port 1 --drafter d", "m", "d"),
        ("--port 1 m --no-drafts --drafter d", "m", "d"),
        ("m --drafter org/repo@v1", "m", "org/repo@v1"),
        ("m --drafter=--odd", "m", "--odd"),
        # bare
        ("--drafter", "demo", BARE),
        ("--family llama --drafter", "demo", BARE),
        ("--drafter --family llama", "demo", BARE),
        ("m --drafter", "m", BARE),
        ("m --drafter --port 1", "m", BARE),
        ("--drafter -- m", "m", BARE),
        # the word after a bare one is MODEL, as no MODEL came before
        ("--drafter m", "m", BARE),
        ("--family llama --drafter m", "m", BARE),
        ("--drafter m --port 1", "m", BARE),
        ("--port 1 --drafter --queue 2 m", "m", BARE),
        # an option's value is no MODEL
        ("--served-model-name x --drafter m", "m", BARE),
        ("--family=llama --drafter m", "m", BARE),
        ("--settings= --drafter m", "m", BARE),
        # the last one counts
        ("m --drafter --drafter d", "m", "d"),
        ("m --drafter d --drafter", "m", BARE),
        ("--drafter m --drafter d", "m", "d"),
        # --drafter-bits is another option, and any value will do
        ("--drafter-bits 4 --drafter m", "m", BARE),
        ("m --drafter-bits 4 --drafter d", "m", "d"),
        ("--drafter --drafter-bits 4", "demo", BARE),
        ("--drafter-bits=none m --drafter", "m", BARE),
    ],
)
def test_orders(line: str, model: str, drafter: str | None) -> None:
    settings = load(line.split()).settings
    assert (settings.model, settings.drafter) == (model, drafter)


@pytest.mark.parametrize("value", ["4", "8", "-1", "0", "x", "16.5", ""])
@pytest.mark.parametrize("form", ["--drafter-bits {} m --drafter", "m --drafter --drafter-bits={}"])
def test_bits_take_any_value(form: str, value: str) -> None:
    settings = load([word.format(value) for word in form.split()]).settings
    assert (settings.model, settings.drafter, settings.drafter_bits) == ("m", "", value)


@pytest.mark.parametrize("argv", [["--drafter="], ["m", "--drafter", ""], ["m", "--drafter="]])
def test_an_empty_name_is_refused(argv: list[str]) -> None:
    with pytest.raises(SettingsError, match="--drafter is given an empty name\nhint: write --drafter alone"):
        load(argv)


def test_a_second_model_is_refused() -> None:
    with pytest.raises(SettingsError, match="one MODEL is served, and 'n' comes after it"):
        load(["m", "n", "--drafter"])


ELSEWHERE = [
    ("--drafter d", "there", "d"),
    ("--port 1 --drafter d --queue 2", "there", "d"),
    ("--drafter", "there", BARE),
    ("--drafter --port 1", "there", BARE),
    ("--drafter=d", "there", "d"),
    ("", "there", None),
    # MODEL of the command line goes before the other
    ("m --drafter d", "m", "d"),
    ("m --drafter", "m", BARE),
    ("m", "m", None),
    ("--drafter=d m", "m", "d"),
    ("--drafter d m", "m", "d"),
    ("--drafter d --port 1 m", "m", "d"),
    ("--drafter --port 1 m", "m", BARE),
    ("--drafter -- m", "m", BARE),
]


@pytest.mark.parametrize(("line", "model", "drafter"), ELSEWHERE)
def test_a_model_of_the_settings_file_leaves_the_next_word_to_the_drafter(
    tmp_path: Path, line: str, model: str, drafter: str | None
) -> None:
    file = tmp_path / "tf.toml"
    file.write_text('model = "there"\n')
    settings = load(["--settings", str(file), *line.split()]).settings
    assert (settings.model, settings.drafter) == (model, drafter)


@pytest.mark.parametrize(("line", "model", "drafter"), ELSEWHERE)
def test_so_does_one_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, line: str, model: str, drafter: str | None
) -> None:
    monkeypatch.setenv("TF_MODEL", "there")
    settings = load(line.split()).settings
    assert (settings.model, settings.drafter) == (model, drafter)


@pytest.mark.parametrize("line", ["--drafter d m --settings {}", "--settings {} --drafter d m", "--drafter d m"])
def test_the_settings_file_may_come_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str) -> None:
    (tmp_path / "tf.toml").write_text('model = "there"\n')
    monkeypatch.setenv("TF_SETTINGS", str(tmp_path / "tf.toml"))
    settings = load(line.format(tmp_path / "tf.toml").split()).settings
    assert (settings.model, settings.drafter) == ("m", "d")


@pytest.mark.parametrize("argv", [["--version"], ["--drafter", "d", "m", "--version"]])
def test_the_version_needs_no_source(monkeypatch: pytest.MonkeyPatch, argv: list[str]) -> None:
    monkeypatch.setenv("TF_SETTINGS", "no.toml")
    assert load(argv).action == "version"


@pytest.mark.parametrize("line", ["--drafter m n", "--drafter m --port 1 n"])
@pytest.mark.parametrize("file", [False, True])
def test_two_words_that_may_each_be_the_model_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, file: bool
) -> None:
    if file:  # one that names no model
        (tmp_path / "tf.toml").write_text("port = 1\n")
        monkeypatch.setenv("TF_SETTINGS", str(tmp_path / "tf.toml"))
    with pytest.raises(SettingsError) as caught:
        load(line.split())
    assert str(caught.value) == (
        "after --drafter, 'm' and 'n' may each be MODEL\nhint: put MODEL first, or write --drafter=NAME"
    )


def test_no_drafts_keeps_the_drafter_setting() -> None:
    settings = load(["--family", "llama", "--drafter", "--no-drafts"]).settings
    assert (settings.drafter, settings.drafts) == ("", False)

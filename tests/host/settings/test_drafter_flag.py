"""`--drafter`, over option orders and values."""

from __future__ import annotations

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
        load(["--drafter", "m", "n"])


def test_no_drafts_keeps_the_drafter_setting() -> None:
    settings = load(["--family", "llama", "--drafter", "--no-drafts"]).settings
    assert (settings.drafter, settings.drafts) == ("", False)

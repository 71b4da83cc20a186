"""What holds for every field."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tf_host.settings import DEFAULT_PLUGINS, ServerSettings, load
from tf_host.settings.fields import word
from tf_host.settings.flags import CommandLine

FIELDS = sorted(ServerSettings.model_fields)
SWITCHES = {"drafts", "compile", "reprobe"}


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_described(name: str) -> None:
    field = ServerSettings.model_fields[name]
    assert field.description
    assert not field.description.endswith(".")
    assert word(field, "expected")
    assert bool(word(field, "metavar")) == (name not in SWITCHES)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_in_the_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        CommandLine().parse(["--help"])
    shown = capsys.readouterr().out
    assert ("MODEL" if name == "model" else "--" + name.replace("_", "-")) in shown
    assert "mkl-plain" not in shown


@pytest.mark.parametrize("name", sorted(set(FIELDS) - SWITCHES - {"drafter"}))
def test_true_is_no_value(name: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings(**{name: True})


def test_made_directly_it_reads_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_PORT", "1")
    assert ServerSettings().port == 8080
    assert load([]).settings.port == 1


def test_it_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        ServerSettings().port = 1


def test_copies_are_asked_before_the_drafter() -> None:
    assert DEFAULT_PLUGINS == ("llama", "llama-budget", "copy", "llama-drafter", "demo")


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert str(ServerSettings(chat_template="~/t.jinja").chat_template) == "/home/me/t.jinja"

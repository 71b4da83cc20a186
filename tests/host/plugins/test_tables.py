"""A plugin's own settings."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from tf_host.plugins.discover import Found
from tf_host.plugins.tables import parse
from tf_plugins import Plugin, SettingsError

FOUND = Found("copy", EntryPoint("copy", "package:Copy", "tf_plugins"), "tf-plugin-copy", "1.0")


class Gate(BaseModel):
    model_config = ConfigDict(extra="ignore")  # a plugin that would swallow unknown keys

    enter_match: int = 8


class Tuning(BaseModel):
    model_config = ConfigDict(extra="allow")

    min_match: int = Field(4, ge=1)
    gate: Gate | None = None
    gates: list[Gate] = []
    limit: int = Field(3, alias="most")
    named: dict[str, Gate] = {}
    token: SecretStr | None = Field(None, min_length=8)

    @field_validator("min_match")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Copy(Plugin):
    Settings = Tuning


class Needy(Plugin):
    class Settings(BaseModel):
        path: str


def said(plugin: type[Plugin], table: dict[str, Any], file: str | None = "tf.toml") -> str:
    with pytest.raises(SettingsError) as caught:
        parse(FOUND, plugin, table, file)
    return str(caught.value)


def test_a_table_is_parsed() -> None:
    parsed = parse(FOUND, Copy, {"min_match": 6, "gate": {"enter_match": 2}, "most": 1}, "tf.toml")
    assert parsed == Tuning(min_match=6, gate=Gate(enter_match=2), most=1)


def test_without_a_table_the_defaults_hold() -> None:
    assert parse(FOUND, Copy, {}, None) == Tuning()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"min_mach": 3}, "tf.toml: plugins.copy.min_mach is no setting\nhint: did you mean min_match?"),
        ({"gate": {"enter": 3}}, "tf.toml: plugins.copy.gate.enter is no setting\nhint: did you mean enter_match?"),
        (
            {"gates": [{}, {"zzz": 3}]},
            "tf.toml: plugins.copy.gates.1.zzz is no setting\nhint: its keys are enter_match",
        ),
        (
            {"zzz": 3},
            "tf.toml: plugins.copy.zzz is no setting\nhint: its keys are min_match, gate, gates, most, named, token",
        ),
        (
            {"named": {"a": {"enter_mach": 3}}},
            "tf.toml: plugins.copy.named.a.enter_mach is no setting\nhint: did you mean enter_match?",
        ),
        (
            {"token": "sesame"},
            "tf.toml: plugins.copy.token: value should have at least 8 items after validation, not 6",
        ),
        ({"min_match": 5}, "tf.toml: plugins.copy.min_match: must be even, not 5"),
        ({"min_match": 0}, "tf.toml: plugins.copy.min_match: input should be greater than or equal to 1, not 0"),
    ],
)
def test_what_does_not_fit(table: dict[str, Any], message: str) -> None:
    assert said(Copy, table) == message


def test_the_expected_type_is_named() -> None:
    assert said(Copy, {"min_match": "x"}).startswith("tf.toml: plugins.copy.min_match: input should be a valid integer")


def test_a_required_key() -> None:
    assert said(Needy, {}, None) == (
        "plugins.copy.path is required\nhint: give it in a settings file, in the table [plugins.copy]"
    )


def test_a_plugin_without_settings() -> None:
    assert parse(FOUND, Plugin, {}, "tf.toml") is None
    assert said(Plugin, {"a": 1}) == (
        "tf.toml: plugins.copy.a is no setting: plugin 'copy' has none\nhint: take [plugins.copy] out of the file"
    )

"""`--print-settings`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from tf_host.settings import load
from tf_host.settings.show import show


class Inner(BaseModel):
    size: int = 1


class Table(BaseModel):
    token: SecretStr = SecretStr("")
    match: int = 3
    inner: Inner = Inner()
    names: tuple[str, ...] = ()


def test_values_with_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tf.toml").write_text("parallel = 'auto'\n[plugins.mine]\nmatch = 4\ntoken = 'hush'\n")
    monkeypatch.setenv("TF_API_KEY", "sesame")
    settings = load(["--settings", "tf.toml", "m", "--drafter", "--no-drafts", "--memory-gib", "1.5"]).settings
    text = show(settings, {"mine": Table(match=4, token=SecretStr("hush"))})
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert {
        'model = "m" # MODEL',
        "drafter = true # --drafter",
        "drafts = false # --no-drafts",
        "memory_gib = 1.5 # --memory-gib",
        'parallel = "auto" # tf.toml: parallel',
        "# api_key is hidden # TF_API_KEY",
        "# context is not set # default",
        "port = 8080 # default",
        "[plugins.mine]",
        "match = 4 # tf.toml: plugins.mine.match",
        "# token is hidden # tf.toml: plugins.mine.token",
        'inner = {"size" = 1} # default',
    } <= lines
    assert "sesame" not in text
    assert "hush" not in text


def test_it_reads_back_as_the_same_settings(tmp_path: Path) -> None:
    argv = [
        'a "b" \\ é',
        "--served-model-name",
        "x,y",
        "--top-k",
        "3",
        "--drafter=d",
        "--compile",
        "--cors",
        "http://h",
    ]
    settings = load(argv).settings
    file = tmp_path / "again.toml"
    file.write_text(show(settings, {"mine": Table(names=("n", "m"))}))
    again = load(["--settings", str(file)]).settings
    assert again.model_dump() == settings.model_dump()
    assert again.plugin_tables["mine"]["names"] == ["n", "m"]
    assert set(tomllib.loads(file.read_text())) - {"plugins"} <= set(type(settings).model_fields)

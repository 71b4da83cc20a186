"""From names in the settings to plugins: every way that goes wrong is one message."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tf_host.plugins import Plugins, load, parsed_settings, survey
from tf_host.plugins.info import as_json, as_table
from tf_host.settings import ServerSettings
from tf_host.settings import load as load_settings
from tf_plugins import PluginError, SettingsError, TfError

Install = Callable[..., str]

GOOD = """
class Mine(Plugin):
    api_version = 1
    made = []
    def __init__(self, settings):
        super().__init__(settings)
        self.made.append(self)
    @hookimpl
    def checkpoints(self):
        return [NamedCheckpoint("mine", lambda progress: None)]
"""


def named(*names: str) -> ServerSettings:
    return ServerSettings(use_plugins=names)


def said(*names: str) -> str:
    with pytest.raises(TfError) as caught:
        load(named(*names))
    return str(caught.value)


def from_file(tmp_path: Path, text: str, *argv: str) -> ServerSettings:
    file = tmp_path / "tf.toml"
    file.write_text(text)
    return load_settings(["--settings", str(file), *argv]).settings


def test_it_is_made_once_and_asked(install: Install) -> None:
    module = install(GOOD)
    plugins = Plugins.load(named("mine"))
    assert [checkpoint.name for checkpoint in plugins.checkpoints()] == ["mine"]
    assert len(sys.modules[module].Mine.made) == 1
    assert plugins.names == ("mine",)


def test_only_named_plugins_are_imported(install: Install) -> None:
    install(GOOD)
    other = install("raise SystemExit", distribution="tf-plugin-other", entries="other = {module}:Other")
    load(named("mine"))
    assert other not in sys.modules


def test_order_comes_from_the_settings(install: Install) -> None:
    second = GOOD.replace("Mine", "Second").replace('"mine"', '"second"')
    install(GOOD + second, entries="mine = {module}:Mine\nsecond = {module}:Second")
    for names in (("mine", "second"), ("second", "mine")):
        assert [checkpoint.name for checkpoint in Plugins.load(named(*names)).checkpoints()] == list(names)


def test_an_unknown_name(install: Install) -> None:
    install(GOOD)
    assert said("mnie") == "--use-plugins: no installed plugin is named 'mnie'\nhint: did you mean mine?"


def test_an_unknown_name_with_its_source(install: Install, tmp_path: Path) -> None:
    install(GOOD)
    settings = from_file(tmp_path, 'add_plugins = ["zzz"]\n', "--use-plugins", "mine")
    with pytest.raises(SettingsError, match=r"tf.toml: add_plugins: no installed plugin is named 'zzz'"):
        load(settings)


def test_two_plugins_of_one_name(install: Install) -> None:
    first = install(GOOD)
    second = install(GOOD, distribution="tf-plugin-yours", version="0.3")
    message = said("mine")
    assert "--use-plugins: two plugins are named 'mine'" in message
    assert f"tf-plugin-mine 1.2 ({first}:Mine)" in message
    assert f"tf-plugin-yours 0.3 ({second}:Mine)" in message
    assert first not in sys.modules


@pytest.mark.parametrize(
    ("code", "hook", "cause", "hint"),
    [
        ("import no_such_module", "import", "ModuleNotFoundError: No module named 'no_such_module'", "reinstall"),
        ("raise SystemExit(3)", "import", "SystemExit: 3", "reinstall"),
        ("class Other: pass", "import", "AttributeError: module", "reinstall"),
        ("class Mine: pass", "import", "is not a subclass of tf_plugins.Plugin", "mine = "),
        ("def Mine(settings): pass", "import", "is not a subclass of tf_plugins.Plugin", "mine = "),
        ("class Mine(Plugin): pass", "import", "does not state the plugin API", "api_version = 1"),
        (GOOD.replace("= 1", "= 2"), "import", "written for plugin API 2, and this host has 1", "upgrade tf-plugins"),
        (GOOD.replace("= 1", "= -1"), "import", "written for plugin API -1", "upgrade tf-plugin-mine"),
        ("class Mine(Plugin):\n    api_version = 1", "import", "Mine implements no hook", "the hooks are families"),
        (
            GOOD.replace("super()", "raise ValueError('no luck')\n        super()"),
            "start",
            "ValueError: no luck",
            "see [",
        ),
        (GOOD.replace("super()", "raise SystemExit\n        super()"), "start", "SystemExit", "see [plugins.mine]"),
        (GOOD + "    Settings = dict\n", "import", "Mine.Settings is no pydantic model", "BaseModel"),
    ],
)
def test_a_plugin_that_fails(install: Install, code: str, hook: str, cause: str, hint: str) -> None:
    install(code)
    with pytest.raises(PluginError) as caught:
        load(named("mine"))
    error = caught.value
    assert (error.plugin, error.distribution, error.version, error.hook) == ("mine", "tf-plugin-mine", "1.2", hook)
    assert cause in error.cause
    assert hint in error.hint
    assert str(error).startswith(f"plugin 'mine' (tf-plugin-mine 1.2) failed in {hook}: ")


def test_a_refusal_at_start_keeps_its_hint(install: Install) -> None:
    refusing = GOOD.replace(
        "super().__init__(settings)",
        "from tf_plugins import Refused; raise Refused(Refusal('no_key', 'it has no key', 'set MINE_KEY'))",
    )
    install(refusing)
    assert said("mine") == "plugin 'mine' (tf-plugin-mine 1.2) failed in start: it has no key\nhint: set MINE_KEY"


def test_all_tables_are_parsed_before_a_plugin_is_made(install: Install, tmp_path: Path) -> None:
    picky = GOOD.replace("Mine", "Picky") + "    class Settings(BaseModel):\n        size: int = 1\n"
    module = install(GOOD + picky, entries="mine = {module}:Mine\npicky = {module}:Picky")
    settings = from_file(tmp_path, "[plugins.picky]\nsize = 'x'\n", "--use-plugins", "mine,picky")
    with pytest.raises(SettingsError, match=r"plugins\.picky\.size"):
        load(settings)
    assert sys.modules[module].Mine.made == []


def test_a_table_of_nobody(install: Install, tmp_path: Path) -> None:
    install(GOOD)
    settings = from_file(tmp_path, "[plugins.mien]\na = 1\n", "--use-plugins", "mine")
    with pytest.raises(
        SettingsError, match=r"plugins\.mien is the table of no installed plugin\nhint: did you mean mine\?"
    ):
        load(settings)


def test_a_table_of_a_plugin_out_of_use(install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(GOOD)
    install(GOOD, distribution="tf-plugin-other", entries="other = {module}:Mine")
    settings = from_file(tmp_path, "[plugins.other]\na = 1\n", "--use-plugins", "mine")
    with caplog.at_level(logging.WARNING):
        load(settings)
    assert "plugins.other is not read: plugin 'other' is not in use" in caplog.text


def test_survey(install: Install) -> None:
    install(GOOD)
    install("raise ValueError('bad day')", distribution="tf-plugin-bad", entries="bad = {module}:Bad")
    spare = install(GOOD, distribution="tf-plugin-spare", version="9", entries="spare = {module}:Mine")
    rows = survey(named("bad", "mine", "gone"))
    shown = [(row.name, row.distribution, row.version, row.hooks, row.state) for row in rows]
    assert shown[:3] == [
        ("bad", "tf-plugin-bad", "1.2", (), "failed"),
        ("mine", "tf-plugin-mine", "1.2", ("checkpoints",), "loaded"),
        ("gone", "unknown", "unknown", (), "failed"),
    ]
    assert ("spare", "tf-plugin-spare", "9", (), "available") in shown[3:]
    assert spare not in sys.modules
    table = as_table(rows)
    assert "ValueError: bad day" in table
    assert re.search(r"^spare +tf-plugin-spare +9 +available +\(not imported\)$", table, re.MULTILINE)
    assert table.splitlines()[0].split() == ["name", "distribution", "version", "state", "hooks"]
    assert '"state": "failed"' in as_json(rows)


def test_rows_of_a_running_server(install: Install) -> None:
    install(GOOD)
    install(GOOD, distribution="tf-plugin-spare", entries="spare = {module}:Mine")
    plugins = Plugins.load(named("mine"))
    rows = plugins.rows()
    assert "spare" in plugins.unused()
    assert "mine" not in plugins.unused()
    assert [(row.name, row.state) for row in rows if row.name in ("mine", "spare")] == [
        ("mine", "loaded"),
        ("spare", "available"),
    ]


def test_parsed_settings_leave_plugins_without_any_out(install: Install, tmp_path: Path) -> None:
    picky = GOOD.replace("Mine", "Picky") + "    class Settings(BaseModel):\n        size: int = 1\n"
    install(GOOD + picky, entries="mine = {module}:Mine\npicky = {module}:Picky")
    settings = from_file(tmp_path, "[plugins.picky]\nsize = 2\n", "--use-plugins", "mine,picky")
    assert {name: table.model_dump() for name, table in parsed_settings(settings).items()} == {"picky": {"size": 2}}

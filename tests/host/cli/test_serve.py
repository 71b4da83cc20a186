"""`tf-serve`: its exit codes, its messages, and what it does not import."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tf_host.device
from tf_host.cli.failures import reported
from tf_host.cli.port import reserve_socket
from tf_host.cli.serve import main
from tf_plugins import PluginError, Refused, TfError
from tf_plugins.types import Refusal


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The start, replaced: the list holds the settings and the socket that it was called with."""
    calls: list[tuple[Any, Any]] = []
    fake: Any = SimpleNamespace(serve=lambda settings, listening: calls.append((settings, listening.getsockname())))
    monkeypatch.setitem(sys.modules, "tf_host.start", fake)
    monkeypatch.setattr(tf_host.device, "prepare", lambda settings: None)
    return calls


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def serve(settings: object, listening: object) -> None:
        raise error

    fake: Any = SimpleNamespace(serve=serve)
    monkeypatch.setitem(sys.modules, "tf_host.start", fake)


def test_it_serves_on_the_socket_it_took(started: list[tuple[Any, Any]]) -> None:
    assert main(["m", "--port", "0", "--drafter"]) == 0
    (settings, (host, port)) = started[0]
    assert (settings.model, settings.drafter, host, port > 0) == ("m", "", "127.0.0.1", True)


def test_a_port_in_use_ends_it_before_anything_loads(
    started: list[tuple[Any, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with reserve_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 1
    assert started == []
    assert capsys.readouterr().err.startswith(f"tf-serve: --port {port} is in use on 127.0.0.1\nhint: ")


def test_wrong_settings_end_it_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--paralel", "2"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "tf-serve: no flag --paralel\nhint: did you mean --parallel?\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Refused(Refusal("no", "it is not served", "serve another")), "it is not served\nhint: serve another\n"),
        (
            PluginError(plugin="p", distribution="d", version="1", hook="start", cause="c", hint="h"),
            "plugin 'p' (d 1) failed in start: c\nhint: h\n",
        ),
    ],
)
@pytest.mark.usefixtures("started")
def test_what_is_expected_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, message: str
) -> None:
    fail_with(monkeypatch, error)
    assert main(["--port", "0"]) == 1
    assert capsys.readouterr().err == f"tf-serve: {message}"


@pytest.mark.usefixtures("started")
def test_anything_else_is_a_bug_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(monkeypatch, ZeroDivisionError("oh"))
    assert main(["--port", "0"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tf-serve: internal error, please report it with all of this\n")
    assert "\nmlx " in said
    assert "\nPython 3" in said
    assert said.rstrip().endswith("ZeroDivisionError: oh")


@pytest.mark.usefixtures("started")
def test_an_interrupt_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert main(["--port", "0"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_drafter_bits_are_named_in_one_log_line(
    started: list[tuple[Any, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    main(["--port", "0"])
    assert "drafter-bits" not in caplog.text
    main(["--port", "0", "--drafter-bits", "4", "--drafter"])
    assert caplog.text.count("--drafter-bits 4 is not read: a Llama drafter is served as it is stored") == 1
    assert len(started) == 2


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_nothing_heavy_is_imported_to_say_so(flag: str) -> None:
    code = f"""
import sys
from tf_host.cli.serve import main
try:
    code = main([{flag!r}])
except SystemExit as end:
    code = end.code
heavy = ("mlx", "mlx_lm", "transformers", "huggingface_hub", "fastapi", "numpy", "tf_host.plugins", "tf_host.device")
print([name for name in heavy if name in sys.modules], code)
"""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stdout
    assert done.stdout.startswith("tf-serve " if flag == "--version" else "usage: tf-serve ")
    assert done.stderr == ""


def test_print_settings(tmp_path: Path) -> None:
    plugin = tmp_path / "shown_plugin"
    (plugin / "shown-1.dist-info").mkdir(parents=True)
    (plugin / "shown-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shown\nVersion: 1\n")
    (plugin / "shown-1.dist-info" / "entry_points.txt").write_text("[tf_plugins]\nshown = shown_plugin:Shown\n")
    (plugin / "shown_plugin.py").write_text(
        "from pydantic import BaseModel, SecretStr\n"
        "from tf_plugins import Plugin, hookimpl\n"
        "class Shown(Plugin):\n"
        "    api_version = 1\n"
        "    class Settings(BaseModel):\n"
        "        size: int = 1\n"
        "        token: SecretStr = SecretStr('')\n"
        "    @hookimpl\n"
        "    def round_done(self, round): pass\n"
    )
    file = tmp_path / "tf.toml"
    file.write_text("[plugins.shown]\nsize = 2\ntoken = 'hush'\n")
    argv = ["--print-settings", "--use-plugins", "shown", "--settings", str(file)]
    code = f"from tf_host.cli.serve import main; main({argv!r})"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugin), *sys.path]), "TF_API_KEY": "sesame"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert 'use_plugins = ["shown"] # --use-plugins' in lines
    assert lines[-3:] == [
        "[plugins.shown]",
        f"size = 2 # {file}: plugins.shown.size",
        f"# token is hidden # {file}: plugins.shown.token",
    ]
    assert "sesame" not in done.stdout
    assert "hush" not in done.stdout


def test_plugins_that_fail_make_the_list_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plugins", "--use-plugins", "no-such"]) == 1
    assert "no installed plugin is named 'no-such'" in capsys.readouterr().out


@pytest.mark.parametrize(("level", "traced"), [(logging.INFO, False), (logging.DEBUG, True)])
def test_a_plugin_s_traceback_is_shown_for_debugging(
    level: int, traced: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        try:
            {}["rope"]
        except KeyError as error:
            raise TfError("plugin 'house' failed") from error

    with caplog.at_level(level):
        assert reported("tf-serve", fail) == 1
    said = capsys.readouterr().err
    assert said.startswith("tf-serve: plugin 'house' failed\n")
    assert ("Traceback" in said) == ("KeyError: 'rope'" in said) == traced

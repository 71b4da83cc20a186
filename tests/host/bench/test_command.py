"""``tf-bench`` itself: options, exit codes, JSON lines and the table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import FakeServer, Script, serving
from tf_host.bench.options import parse, plan_of
from tf_host.cli.bench import main
from tf_plugins import SettingsError


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer()) as running:
        yield running


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"id": "a", "kind": "chat", "prompt": "A {n}"}\n{"id": "b", "kind": "code", "prompt": "B {n}"}\n')
    return path


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_output_that_cannot_be_written_is_named(
    server: FakeServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([server.url, "--output", str(tmp_path / "none" / "out.jsonl")]) == 2
    assert "out.jsonl cannot be written: No such file or directory" in capsys.readouterr().err


def test_json_lines_where_there_is_no_terminal(
    server: FakeServer, prompts: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    options = ["--prompts", str(prompts), "--temperatures", "0,0.7", "--alone", "--serial", "--label", "mine"]
    assert main([server.url, *options, "--output", str(out)]) == 0
    printed = capsys.readouterr()
    records = lines(printed.out)
    assert lines(out.read_text()) == records
    assert [record["kind"] for record in records] == ["window"] * 8 + ["cell"] * 4
    assert {record["label"] for record in records} == {"mine"}
    assert records[-1]["alone"] == {"equal": 4, "of": 4}
    assert records[-1]["serial"] == {"equal": 4, "of": 4}
    assert "8/8" in printed.err


def test_a_table_on_a_terminal(
    server: FakeServer, prompts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    server.answer = lambda body: Script(
        ids=[1] * 8, step=0.01, tf={"rounds": 4, "sources": {"copy": {"drafted": 6, "accepted": 5}}}
    )
    assert main([server.url, "--prompts", str(prompts), "--levels", "1", "--against", server.url]) == 0
    printed = capsys.readouterr().out
    assert "tok/s" in printed
    assert "copy 10/12" in printed
    assert "other 2/2" in printed
    assert "of 2" in printed
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(printed.splitlines()[0])


def test_it_fails_where_a_reply_fails_and_names_it(
    server: FakeServer, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda body: Script(status=500) if body["prompt"].startswith("B") else Script()
    assert main([server.url, "--prompts", str(prompts), "--levels", "1"]) == 1
    assert "b: HTTP 500: no" in capsys.readouterr().err


def test_it_fails_where_replies_differ(server: FakeServer, prompts: Path) -> None:
    server.answer = lambda body: Script(ids=[1, 2] if "draft" in body else [1, 3])
    assert main([server.url, "--prompts", str(prompts), "--levels", "1", "--serial"]) == 1
    assert main([server.url, "--prompts", str(prompts), "--levels", "1"]) == 0


def test_a_server_that_is_not_there_is_one_clean_message(prompts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://127.0.0.1:9", "--prompts", str(prompts)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("tf-bench: http://127.0.0.1:9 cannot be asked for its models")
    assert "Traceback" not in printed.err


def test_prompts_that_are_not_there_are_a_settings_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--prompts", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_natural_stops_are_the_default_and_ignoring_them_an_option(server: FakeServer, prompts: Path) -> None:
    for options, sent in (([], None), (["--natural"], None), (["--ignore-eos"], True)):
        main([server.url, "--prompts", str(prompts), "--levels", "1", "--windows", "1", *options])
        assert server.bodies[-1].get("ignore_eos") is sent


def test_every_option_reaches_the_plan(prompts: Path) -> None:
    plan = plan_of(
        parse(
            f"u --prompts {prompts} --levels 1,2,4 --tokens 9 --reps 3 --windows 1 --temperatures 0,0.7 "
            "--alone --serial --stagger-ms 250".split()
        )
    )
    assert (plan.levels, plan.tokens, plan.reps, plan.windows) == ((1, 2, 4), 9, 3, 1)
    assert (plan.temperatures, plan.stagger, plan.alone, plan.serial) == ((0.0, 0.7), 0.25, True, True)


@pytest.mark.parametrize(
    "options",
    [
        "--levels 0",
        "--levels 1,x",
        "--tokens 0",
        "--reps -1",
        "--temperatures -1",
        "--temperatures nan",
        "--natural --ignore-eos",
    ],
)
def test_options_that_cannot_be_used(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(options.split())
    assert exit.value.code == 2
    assert capsys.readouterr().err


def test_prompts_are_checked_by_the_plan(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        plan_of(parse(["--prompts", str(tmp_path / "none")]))

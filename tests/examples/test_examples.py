"""The examples as third parties ship them: installed by pip, taken into use by settings alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.serving import Client, serving
from tests.examples.installing import EXAMPLES, bytes_model, entry_points, environment, pip_install, run

pytestmark = pytest.mark.slow

NAMES = ("tf-plugin-prompt-lookup", "tf-plugin-tool-limit")

SETTINGS = """
model = "bytes"
use_plugins = ["bytes", "copy"]
add_plugins = ["prompt-lookup", "tool-limit", "shows"]
draft_depth = 8

[plugins.prompt-lookup]
ngram = 4

[plugins.tool-limit]
most = 1
"""

SHOWS = """
import json

from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Refusal


class Shows(Plugin):
    api_version = 1

    @hookimpl
    def refuse_request(self, request):
        if request.body.get("user") == "shows":
            return Refusal("shown", json.dumps(dict(request.body), sort_keys=True), "look at it")
"""

PROMPT = "one two three four, one two three four, one two three"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both examples installed; the sources are copied first, so that no build writes to the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    sources = tmp_path_factory.mktemp("sources")
    for name in NAMES:
        shutil.copytree(EXAMPLES / name, sources / name)
    pip_install(folder, *(sources / name for name in NAMES))
    bytes_model(folder)
    (folder / "tf_shows.py").write_text(SHOWS)
    entry_points(folder, "tf-shows", "shows = tf_shows:Shows")
    return folder


@pytest.fixture(scope="module")
def env(target: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(target, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "serve.toml"
    file.write_text(SETTINGS)
    return file


@pytest.fixture(scope="module")
def log(settings: Path) -> Path:
    return settings.with_name("log")


@pytest.fixture(scope="module")
def server(settings: Path, env: dict[str, str], log: Path) -> Iterator[Client]:
    with serving("--settings", str(settings), log=log, env=env, wait_s=120) as client, closing(client.http):
        yield client


@pytest.mark.parametrize("name", NAMES)
def test_its_own_tests_pass_where_it_is_installed(name: str, env: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name / "tests", tmp_path / "tests")
    output = run("-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider", "tests", cwd=tmp_path, env=env)
    assert " passed" in output
    skipped = [line for line in output.splitlines() if line.startswith("SKIPPED")]
    assert all(line.endswith(": it does not read ahead") for line in skipped)


def test_tf_serve_lists_them(settings: Path, env: dict[str, str], tmp_path: Path) -> None:
    command = ("-m", "tf_host.cli.serve", "--settings", settings, "--plugins", "--json")
    rows = {row["name"]: row for row in json.loads(run(*command, cwd=tmp_path, env=env))}
    for plugin, hooks in (("prompt-lookup", ["proposers", "stream_done"]), ("tool-limit", ["refuse_request"])):
        row = rows[plugin]
        assert (row["distribution"], row["version"]) == (f"tf-plugin-{plugin}", "0.1.0")
        assert (row["state"], row["hooks"]) == ("loaded", hooks)


def test_they_are_not_in_use_unless_settings_name_them(env: dict[str, str], tmp_path: Path) -> None:
    rows = json.loads(run("-m", "tf_host.cli.serve", "--plugins", "--json", cwd=tmp_path, env=env))
    assert {row["name"]: row["state"] for row in rows}["prompt-lookup"] == "available"


def test_drafts_are_counted_under_its_name(server: Client, log: Path) -> None:
    drafted = server.complete(PROMPT, max_tokens=60)
    plain = server.complete(PROMPT, max_tokens=60, draft=False)
    assert drafted.ids == plain.ids
    counts = drafted.tf["sources"]["prompt-lookup"]
    assert counts["accepted"] > 0
    assert f"{counts['accepted']} of {counts['drafted']} tokens looked up in the prompt were kept" in log.read_text()
    metrics = server.http.get("/metrics").text
    assert 'tf:accepted_tokens_total{source="prompt-lookup"}' in metrics


def test_its_settings_table_counts(server: Client) -> None:
    # "ab" and "cab" are in the prompt again, but no four letters in a row.
    reply = server.complete("abcab", max_tokens=1)
    assert reply.tf["drafted"] == 0


def test_too_many_tools_are_refused(server: Client) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "ab"]
    reply = server.chat("Hi", tools=tools)
    assert reply.status == 400
    error = reply.body["error"]
    assert (error["code"], error["param"]) == ("too_many_tools", "tools")
    assert "the request has 2 tools, and this server takes 1" in error["message"]
    assert "send only the tools that this step needs" in error["message"]
    assert server.complete(PROMPT, max_tokens=3).status == 200


def test_a_plugin_sees_the_body_as_json(server: Client) -> None:
    error = server.chat("Hi", user="shows", stop=["x"]).body["error"]
    assert error["code"] == "shown"
    body, _ = json.JSONDecoder().raw_decode(error["message"])
    assert body["messages"] == [{"content": "Hi", "role": "user"}]
    assert (body["stop"], body["temperature"]) == (["x"], 0)


def test_a_misspelled_key_of_its_table_names_the_right_one(settings: Path, env: dict[str, str], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(settings.read_text().replace("ngram", "ngrams"))
    output = run("-m", "tf_host.cli.serve", "--settings", wrong, cwd=tmp_path, env=env, status=2)
    assert f"{wrong}: plugins.prompt-lookup.ngrams is no setting" in output
    assert "did you mean ngram?" in output

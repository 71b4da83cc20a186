"""Where a model is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tf_host.checkpoints import resolve
from tf_plugins import Refused
from tf_plugins.types import NamedCheckpoint

Make = Callable[..., Path]


def quiet(doing: str, done: float) -> None:
    pass


def named(*names: str, folder: Path = Path("made")) -> list[NamedCheckpoint]:
    return [NamedCheckpoint(name, lambda progress: folder, drafter=f"{name}-drafter") for name in names]


def said(asked: str, flag: str = "MODEL", names: tuple[str, ...] = ("demo",)) -> str:
    with pytest.raises(Refused) as caught:
        resolve(asked, flag, named(*names), quiet)
    return str(caught.value)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The hub's client, replaced; the list holds what it was asked for. Set ``error`` in it to have it fail."""
    asked: list[dict[str, Any]] = []

    def snapshot(repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append({"repo": repo, "revision": revision, "patterns": allow_patterns})
        folder = tmp_path / "hub" / "snapshots" / "0123abc"
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    return asked


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(*_: object, **__: object) -> str:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)


@pytest.mark.usefixtures("no_hub")
def test_a_name_before_a_folder_of_that_name(make_folder: Make, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_folder("demo")
    with caplog.at_level(logging.INFO):
        found = resolve("demo", "MODEL", named("demo"), quiet)
    assert (found.name, found.folder, found.drafter) == ("demo", Path("made"), "demo-drafter")
    assert "write ./demo for the folder" in caplog.text
    other = resolve("./demo", "MODEL", named("demo"), quiet)
    assert (other.name, other.folder.resolve(), other.drafter) == ("demo", folder, None)


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize("asked", ["org/repo", "./org/repo", "org/repo/", "org/../org/repo"])
def test_a_folder_before_the_hub(make_folder: Make, asked: str) -> None:
    folder = make_folder("org/repo")
    found = resolve(asked, "MODEL", [], quiet)
    assert (found.name, found.folder.resolve(), found.pinned) == ("repo", folder, None)


@pytest.mark.usefixtures("no_hub")
def test_a_folder_in_home(make_folder: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = make_folder("models/m@v1")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/models/m@v1", "MODEL", [], quiet).folder == folder


@pytest.mark.usefixtures("no_hub")
def test_local_folders_need_no_hub_client(make_folder: Make) -> None:
    import subprocess
    import sys

    folder = make_folder("m")
    code = (
        "import sys; from tf_host.checkpoints import resolve;"
        f"resolve({str(folder)!r}, 'MODEL', [], print); print('huggingface_hub' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True)
    assert done.stdout.strip() == b"False", done.stderr


NOWHERE = "which is no folder here, no hub name (org/repo) and none of the names demo"
GIVE = "give a folder with config.json and safetensors files, or org/repo"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("dmeo", f"MODEL names dmeo, {NOWHERE}\nhint: did you mean demo?"),
        ("./org/repo", f"MODEL names ./org/repo, {NOWHERE}\nhint: {GIVE}"),
        ("/no/such", f"MODEL names /no/such, {NOWHERE}\nhint: {GIVE}"),
        ("a/b/c", f"MODEL names a/b/c, {NOWHERE}\nhint: {GIVE}"),
    ],
)
@pytest.mark.usefixtures("no_hub")
def test_nothing_there(make_folder: Make, asked: str, message: str) -> None:
    make_folder("other")
    assert said(asked) == message


@pytest.mark.usefixtures("no_hub")
def test_a_file_is_no_checkpoint(make_folder: Make) -> None:
    make_folder("m")
    assert said("m/config.json") == ("MODEL names the file m/config.json, and a checkpoint is a folder\nhint: give m")


@pytest.mark.parametrize(
    ("asked", "repo", "revision"),
    [
        ("org/repo", "org/repo", None),
        ("org/repo@v1.0", "org/repo", "v1.0"),
        ("my-org/Model_2.5-Instruct@refs/pr/3", "my-org/Model_2.5-Instruct", "refs/pr/3"),
    ],
)
def test_hub_names(make_folder: Make, hub: list[dict[str, Any]], asked: str, repo: str, revision: str | None) -> None:
    make_folder("elsewhere")
    found = resolve(asked, "MODEL", named("demo"), quiet)
    assert [(one["repo"], one["revision"]) for one in hub] == [(repo, revision)]
    assert not any("safetensors" in pattern and "json" not in pattern for pattern in hub[0]["patterns"])
    assert found.name == repo
    assert found.pinned is not None
    found.pinned.fetch_weights(quiet)
    assert hub[1] == {"repo": repo, "revision": "0123abc", "patterns": ["*.safetensors"]}


def _http(kind: type[HfHubHTTPError]) -> Exception:
    import httpx

    return kind("404 Client Error\nmore", response=httpx.Response(404, request=httpx.Request("GET", "http://h")))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (lambda: _http(GatedRepoError), "which the hub gives to accepted accounts only"),
        (lambda: _http(RepositoryNotFoundError), "which is neither a folder here nor on the hub"),
        (lambda: _http(RevisionNotFoundError), "and the hub has no such revision"),
        (lambda: LocalEntryNotFoundError("offline"), "which is no folder here, not in the hub's cache, and the hub"),
        (lambda: _http(HfHubHTTPError), "and it cannot be fetched: 404 Client Error"),
        (lambda: ConnectionError("no route"), "and it cannot be fetched: no route"),
    ],
)
def test_hub_errors(monkeypatch: pytest.MonkeyPatch, error: Callable[[], Exception], reason: str) -> None:
    def fail(*_: object, **__: object) -> str:
        raise error()

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    message = said("org/repo@v1", "--drafter")
    assert message.startswith(f"--drafter names org/repo@v1, {reason}")
    assert message.count("\n") == 1
    assert "\nhint: " in message


def test_offline_and_not_in_the_cache(tmp_path: Path) -> None:
    """The real client, in a process of its own, as it reads the variable once."""
    import subprocess
    import sys

    code = """
from tf_host.checkpoints import resolve
from tf_plugins import Refused
try:
    resolve("org/repo", "MODEL", [], print)
except Refused as refused:
    print(refused)
"""
    variables = {"PYTHONPATH": ":".join(sys.path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MODEL names org/repo, which is no folder here, not in the hub's cache")

"""A drafter that cannot be used ends the start, by name; the target is never served alone in its place."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.serving import free_port


def start(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``tf-serve`` until it ends by itself."""
    command = [sys.executable, "-m", "tf_host.cli.serve", "--cpu-blas", "none", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **env})


@pytest.fixture
def copied(demo_folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """The demo drafter's folder: small files copied, weights linked."""
    folder = tmp_path / "odd-drafter"
    folder.mkdir()
    for file in demo_folders[1].iterdir():
        if file.suffix == ".safetensors":
            (folder / file.name).symlink_to(file)
        elif file.is_file():
            shutil.copy(file, folder)
    return folder


def change(file: Path, how: Callable[[dict], object]) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    how(data)
    file.write_text(json.dumps(data), encoding="utf-8")


def swap_ids(tokenizer: dict) -> None:
    vocab = tokenizer["model"]["vocab"]
    one, other = list(vocab)[1000:1002]
    vocab[one], vocab[other] = vocab[other], vocab[one]


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (shutil.rmtree, "--drafter"),
    "empty": (lambda folder: [file.unlink() for file in folder.iterdir()], "config.json"),
    "unreadable": (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
    "quantized": (
        lambda folder: change(folder / "config.json", lambda c: c.update(quantization={"bits": 4, "group_size": 64})),
        "quantized",
    ),
    "another tokenizer": (lambda folder: change(folder / "tokenizer.json", swap_ids), "tokenizer"),
    "another family": (
        lambda folder: change(
            folder / "config.json", lambda c: c.update(model_type="mamba", architectures=["MambaForCausalLM"])
        ),
        "mamba",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_drafter_that_cannot_be_used_is_refused_by_name(copied: Path, fault: str) -> None:
    spoil, named = FAULTS[fault]
    spoil(copied)
    port = free_port()
    done = start("--family", "llama", f"--drafter={copied}", "--port", str(port))
    assert done.returncode in (1, 2), done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith(("tf-serve: ", "hint: "))]
    assert copied.name in " ".join(said), done.stderr
    assert named in " ".join(said), done.stderr
    assert "Traceback" not in done.stderr
    assert "serving" not in done.stderr
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0

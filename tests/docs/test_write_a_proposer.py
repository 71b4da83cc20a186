"""Every step of the guide, from an empty folder to a kept draft, as it is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.e2e.serving import BLAS, free_port
from tests.examples.installing import bytes_model, environment, run

GUIDE = DOCS / "guides" / "write-a-proposer.md"
MODULE = "tf_plugin_lookback.py"

DRAFT = """
import json, sys
from tf_plugin_counting import Counting
from tf_plugins.testing.opened import request
asked = request(1, b"the cat, the dog, the cat, th", alternatives=3, least=float(sys.argv[1]))
[draft] = Counting(4).propose([asked])
print(json.dumps([bytes(draft.tokens).decode(), draft.alternatives, draft.probabilities]))
"""

WRAPPERS = {
    "python": 'exec "{python}" "$@"',
    # Into a folder of its own, and without a network.
    "pip": 'command=$1; shift; exec "{python}" -m pip "$command" --quiet --no-deps --no-build-isolation --no-index'
    ' --target "{target}" "$@"',
    # The model of bytes in place of the demo pair: the steps are what is tested.
    "tf-serve": 'exec "{python}" -m tf_host.cli.serve bytes --use-plugins bytes --port {port} --cpu-blas {blas} "$@"',
}


class Reader:
    """Does what the guide says, in a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        target, commands = folder / "site", folder / "bin"
        target.mkdir()
        commands.mkdir()
        bytes_model(target)
        blas = BLAS[os.environ.get("TF_TEST_BACKEND", "stock")]
        for name, text in WRAPPERS.items():
            script = text.format(python=sys.executable, target=target, port=self.port, blas=blas)
            (commands / name).write_text(f"#!/bin/sh\n{script}\n")
            (commands / name).chmod(0o755)
        self.env = environment(target, folder / "cache")
        self.env["PATH"] = f"{commands}{os.pathsep}{self.env['PATH']}"

    def does(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here(text)],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def serving(self, text: str) -> Iterator[Path]:
        log = self.folder / "log"
        with log.open("w") as out:
            command = ["bash", "-c", f"exec {self._here(text)}"]
            process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=out, stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + 120
                while "serving bytes" not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    time.sleep(0.1)
                yield log
            finally:
                process.terminate()
                process.wait(30)

    def _here(self, text: str) -> str:
        return text.replace("8080", str(self.port))


def test_the_module_has_60_lines() -> None:
    (module,) = blocks(GUIDE, f"python {MODULE}")
    assert len(module.text.splitlines()) <= 60


def test_the_one_that_says_how_likely_it_is_passes_the_kit(tmp_path: Path) -> None:
    for name in (MODULE, "tf_plugin_counting.py", "test_counting.py"):
        (block,) = blocks(GUIDE, f"python {name}")
        (tmp_path / name).write_text(block.text)
    env = environment(tmp_path, tmp_path / "cache")
    output = run("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=tmp_path, env=env)
    assert " passed" in output
    # "th" went on with "e" in all of 3 times, and "e " with "c" in 2 and with "d" in 1.
    whole, early = (json.loads(run("-c", DRAFT, least, cwd=tmp_path, env=env)) for least in ("0", "0.3"))
    assert whole == ["e ca", [[], [], [100], []], [[0.75], [0.75], [0.5, 0.25], [2 / 3]]]
    assert early == ["e c", whole[1][:3], whole[2][:3]]


@pytest.mark.slow
def test_every_step(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    steps = blocks(GUIDE)
    start = next(block for block in steps if block.text.startswith("tf-serve --add-plugins"))
    before, after = steps[: steps.index(start)], steps[steps.index(start) + 1 :]

    outputs = {}
    for block in before:
        kind, _, file = block.kind.partition(" ")
        if kind == "sh":
            outputs[block.text] = reader.does(block.text)
            if block.text.startswith("mkdir"):
                reader.folder = tmp_path / "tf-plugin-lookback"
        else:
            assert file, f"{block.kind} is in no file"
            (reader.folder / file).write_text(block.text)
    assert " passed" in outputs["python -m pytest -q\n"]
    (row,) = [line for text in outputs.values() for line in text.splitlines() if line.startswith("lookback ")]
    assert row.split()[1:4] == ["tf-plugin-lookback", "0.1.0", "available"]

    table, ask, shown = (next(block for block in after if block.kind == kind) for kind in ("toml", "sh", "json"))
    settings = tmp_path / "serve.toml"
    settings.write_text(table.text)
    assert "lookback" in reader.does(f"tf-serve --settings {settings} --print-settings")

    reader.folder = tmp_path  # anywhere else
    with reader.serving(start.text) as log:
        answer = reader.does(ask.text)
        assert "drafts: lookback" in log.read_text()
    reply, _ = json.JSONDecoder().raw_decode(answer)
    counts = reply["tf"]["sources"]["lookback"]
    assert counts["accepted"] > 0
    assert json.loads(f"{{{shown.text}}}")["sources"]["lookback"].keys() == counts.keys()
    for name, count in (("drafted", counts["drafted"]), ("accepted", counts["accepted"])):
        assert f'tf:{name}_tokens_total{{source="lookback"}} {float(count)}' in answer

"""MLX can be prepared once a process, so these tests ask processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tf_host.device.cuda import KEPT_GRAPHS

_SCRIPT = """
import json, os, resource, sys
asked = json.loads(sys.argv[1])
if asked["first"]:
    exec(asked["first"])
from tf_host.settings import ServerSettings
from tf_host.device import bits_key, prepare
from tf_plugins import TfError
said = {}
try:
    device = prepare(ServerSettings(**asked["settings"]))
    said |= {"name": device.name, "dtype": device.dtype, "compiled": device.compiled, "key": bits_key(device)}
    said["environment"] = {name: os.environ.get(name) for name in asked["environment"]}
    exec(asked["then"])
except TfError as error:
    said["refused"] = str(error)
print(json.dumps(said))
"""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def in_a_process() -> Ask:
    """Prepare a device in a process of its own and say what came of it; ``output`` holds all that it printed."""

    def ask(
        *,
        first: str = "",
        then: str = "",
        environment: dict[str, str] | None = None,
        path: Path | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        cuda = [*KEPT_GRAPHS, "MLX_ENABLE_CACHE_THRASHING_CHECK"]
        names = ["MKL_CBWR", "MKL_NUM_THREADS", "MKL_DYNAMIC", "MLX_ENABLE_TF32", "TMPDIR", *cuda]
        asked = {"settings": {"device": "cpu"} | settings, "environment": names, "first": first, "then": then}
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})}
        for name in ("MKL_CBWR", "MKL_NUM_THREADS", "MKL_DYNAMIC", "TMPDIR", *cuda):
            if name not in (environment or {}):
                variables.pop(name, None)
        if path is not None:
            variables["PATH"] = str(path)
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, json.dumps(asked)],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {**said, "output": done.stdout + done.stderr}

    return ask

"""Golden ids of plain greedy replies, a backend and processor at a time: ``python -m tests.e2e.golden`` records them.

A change of recorded ids needs a line in the changelog.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from tests.e2e.prompts import PROMPTS
from tests.e2e.serving import Client, serving
from tf_host.device.processor import instructions_digest

FILE = Path(__file__).with_name("golden.json")
TOKENS = 24
RECORDED = (0, 1, 4)
"""Which of the prompts: a question, code, Chinese."""


def key(backend: str) -> str:
    """What golden ids hold for: the backend, and the processor's instructions."""
    return f"{backend} {instructions_digest()}"


def replies(client: Client) -> dict[str, list[int]]:
    """Plain greedy ids of the recorded prompts."""
    return {PROMPTS[n]: client.chat(PROMPTS[n], max_tokens=TOKENS, draft=False, ignore_eos=True).ids for n in RECORDED}


def main() -> None:
    """Record this machine's ids of the backend in TF_TEST_BACKEND."""
    backend = os.environ.get("TF_TEST_BACKEND", "stock")
    golden = json.loads(FILE.read_text()) if FILE.exists() else {}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("--family", "llama", "--no-drafts", "--parallel", "2", log=Path(folder) / "log") as client,
    ):
        golden[key(backend)] = replies(client)
    FILE.write_text(json.dumps(golden, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

"""Results of a GPU bench: JSON lines, one record each, appended by every stage."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Record = dict[str, Any]

UNTIL = "TF_BENCH_UNTIL"
"""Environment variable: the wall-clock second at which a stage has to be over."""


class Sink:
    """Appends a stage's records to the bench's file.

    Args:
        path: the file.
        stage: the stage's name, part of every record.
    """

    def __init__(self, path: Path, stage: str) -> None:
        self._path = path
        self._stage = stage

    def write(self, kind: str, **fields: Any) -> None:
        """One record, on disk at once and on the screen in short."""
        record = {"stage": self._stage, "kind": kind, **fields}
        with self._path.open("a", encoding="utf-8") as file:
            print(json.dumps(record, ensure_ascii=False), file=file)
        shown = {name: value for name, value in record.items() if not isinstance(value, list | dict) or len(value) < 12}
        print(json.dumps(shown, ensure_ascii=False)[:600], flush=True)


def load(path: Path) -> list[Record]:
    """All records; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def left() -> float:
    """Seconds that this stage still has; a day where nobody said."""
    return float(os.environ.get(UNTIL, time.time() + 86_400)) - time.time()

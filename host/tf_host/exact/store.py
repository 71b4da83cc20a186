"""Verdicts kept on disk, so that a second start need not probe again."""

from __future__ import annotations

import logging
from pathlib import Path

from tf_host.exact.verdict import Verdict
from tf_plugins.folders import write_whole

log = logging.getLogger(__name__)


class VerdictStore:
    """One JSON file a verdict, named by its key; written atomically, and skipped where it is damaged.

    Args:
        folder: where the files are; made on the first write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> Verdict | None:
        """The verdict kept for ``key``, or ``None``."""
        path = self._folder / f"{key}.json"
        try:
            verdict = Verdict.from_json(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the verdict file %s is not readable (%s); probing again", path, error)
            return None
        return verdict if verdict.key == key else None

    def save(self, verdict: Verdict) -> None:
        """Keep a verdict; a folder that cannot be written costs a probe at the next start, no more."""
        try:
            write_whole(self._folder / f"{verdict.key}.json", verdict.to_json())
        except OSError as error:
            log.warning("the verdict cannot be kept in %s (%s); the next start probes again", self._folder, error)

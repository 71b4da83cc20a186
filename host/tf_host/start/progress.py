"""Progress of a start: a bar on a terminal, a log line a step elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress as Bar

from tf_plugins.types import Progress

log = logging.getLogger(__name__)


@contextlib.contextmanager
def showing_progress() -> Iterator[Progress]:
    """A progress callback for the time of a start; it writes to stderr only."""
    if not sys.stderr.isatty():
        yield _logging()
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def show(doing: str, done: float) -> None:
            bar.update(task, description=doing, completed=done)

        yield show


def _logging() -> Progress:
    last = ""

    def tell(doing: str, done: float) -> None:
        nonlocal last
        if doing != last:
            last = doing
            log.info("%s", doing)

    return tell

"""The live line while serving: on a terminal only, below the log."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from tf_host.lanes.totals import Snapshot

_EVERY_S = 0.5
_OVER = 6
"""Looks that a rate is taken over: rounds of a slow machine are as far apart as two looks."""

_ERASE = "\r\x1b[2K"


@contextlib.contextmanager
def showing_traffic(snapshot: Callable[[], Snapshot | None]) -> Iterator[None]:
    """Shows what the lanes do, for the time of a block, where stderr is a terminal; elsewhere nothing is written.

    Args:
        snapshot: the lanes now, or ``None`` before they turn.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") in (None, "dumb"):
        yield
        return
    line = LiveLine(sys.stderr, Rate(snapshot))
    with line, _logging_above(line):
        yield


class Rate:
    """The line's text: counts of one snapshot, and tokens a second over the last few."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque(maxlen=_OVER)

    def __call__(self) -> str:
        """The text now."""
        now = self._snapshot()
        if now is None:
            return ""
        self._seen.append((self._clock(), now.tokens))
        (began, before), (at, tokens) = self._seen[0], self._seen[-1]
        rate = (tokens - before) / (at - began) if at > began else 0.0
        parts = [f"{now.decoding + now.reading}/{now.parallel} lanes"]
        if now.waiting:
            parts.append(f"{now.waiting} waiting")
        if now.reading:
            parts.append(f"{now.reading} reading")
        if now.decoding:
            parts.append(f"{rate:.1f} tok/s")
        if drafted := sum(now.drafted.values()):
            parts.append(f"kept {sum(now.kept.values()) / drafted:.0%} of drafts")
        if now.budget:
            parts.append(f"{sum(now.ledger.values()) / now.budget:.0%} of memory")
        parts.append(f"{sum(now.finished.values())} done")
        return " | ".join(parts)


class LiveLine:
    """One line at the bottom of a terminal, drawn again when its text changed; other text goes above it.

    Args:
        out: the terminal.
        text: what to show; called from a thread of the line's own, twice a second.
    """

    def __init__(self, out: TextIO, text: Callable[[], str]) -> None:
        self._out = out
        self._text = text
        self._shown = ""
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live line", daemon=True)

    def __enter__(self) -> LiveLine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._draw("")

    def write(self, text: str) -> int:
        """Write above the line."""
        with self._lock:
            self._out.write((_ERASE if self._shown else "") + text + (self._shown if text.endswith("\n") else ""))
            self._out.flush()
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._draw(self._text())

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            return 80

    def _draw(self, text: str) -> None:
        # A line that wraps could not be erased.
        text = text[: self._columns() - 1]
        with self._lock:
            if text != self._shown:
                self._shown = text
                self._out.write(_ERASE + text)
                self._out.flush()


@contextlib.contextmanager
def _logging_above(line: LiveLine) -> Iterator[None]:
    """Handlers that log to the terminal write above the line."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
    for handler in handlers:
        handler.setStream(line)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(sys.stderr)

"""The live line: on a terminal, below the log, and nowhere else."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys
import time
from typing import Any

import pytest

from tf_host.lanes.totals import Snapshot
from tf_host.start.live import LiveLine, Rate, showing_traffic

SCRIPT = """
import logging, sys, time
logging.basicConfig(stream=sys.stderr, format="%(message)s", level="INFO")
from tests.host.start.test_live import snapshot
from tf_host.start.live import showing_traffic
with showing_traffic(lambda: snapshot(decoding=1)):
    time.sleep(0.8)
    logging.info("a reply ended")
    time.sleep(0.7)
logging.info("the end")
"""


def snapshot(**changed: Any) -> Snapshot:
    facts: dict[str, Any] = {
        "waiting": 0, "reading": 0, "decoding": 0, "parallel": 4, "queue": 64, "rounds": 10, "tokens": 0,
        "prompt_tokens": 0, "cached_tokens": 0, "finished": {"stop": 3, "cancelled": 1}, "drafted": {"drafter": 8},
        "kept": {"drafter": 6}, "budget": 1000, "ledger": {"streams": 250}, "last_error": None,
    }  # fmt: skip
    return Snapshot(**(facts | changed))


def test_what_it_says() -> None:
    seen = iter([snapshot(decoding=2, tokens=100), snapshot(decoding=2, reading=1, waiting=5, tokens=130), None])
    times = iter([10.0, 12.0])
    rate = Rate(lambda: next(seen), lambda: next(times))
    assert rate() == "2/4 lanes | 0.0 tok/s | kept 75% of drafts | 25% of memory | 4 done"
    assert rate() == "3/4 lanes | 5 waiting | 1 reading | 15.0 tok/s | kept 75% of drafts | 25% of memory | 4 done"
    assert rate() == ""


def test_an_idle_server_has_no_rate() -> None:
    idle = Rate(lambda: snapshot(drafted={}, kept={}, budget=0))
    assert idle() == "0/4 lanes | 4 done"


def on_terminal(term: str = "xterm") -> str:
    """What the script writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": term, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=theirs, stdout=subprocess.PIPE, env=env)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.communicate(timeout=30)[0] == b"", "stdout is for data"
    assert process.returncode == 0
    return written.decode()


def screen(written: str) -> list[str]:
    """The lines that stay on a terminal."""
    lines = [""]
    for part in re.split(r"(\r\n|\n|\r\x1b\[2K)", written):
        if part in ("\r\n", "\n"):
            lines.append("")
        elif part == "\r\x1b[2K":
            lines[-1] = ""
        else:
            lines[-1] += part
    return lines


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_on_a_terminal_it_stays_below_the_log() -> None:
    written = on_terminal()
    assert written.count("1/4 lanes") >= 2, "shown, and drawn again below the log's line"
    assert screen(written) == ["a reply ended", "the end", ""], "nothing of it is left behind"


def test_a_dumb_terminal_gets_the_log_only() -> None:
    assert "lanes" not in on_terminal("dumb")


def test_redirected_it_writes_nothing() -> None:
    env = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env, timeout=60)
    assert done.stderr == "a reply ended\nthe end\n"


class Terminal(io.StringIO):
    """Has a number, as a terminal has."""

    def fileno(self) -> int:
        return 2


def test_it_is_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((20, 5)))
    out = Terminal()
    with LiveLine(out, lambda: "x" * 100):
        end = time.monotonic() + 5
        while "x" not in out.getvalue() and time.monotonic() < end:
            time.sleep(0.05)
    assert "x" * 19 in out.getvalue()
    assert "x" * 20 not in out.getvalue()


def test_handlers_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(handler)
    try:
        with showing_traffic(lambda: None):
            assert handler.stream is not sys.stderr
        assert handler.stream is sys.stderr
    finally:
        logging.getLogger().removeHandler(handler)

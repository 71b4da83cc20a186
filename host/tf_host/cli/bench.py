"""``tf-bench``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from tf_host.cli.failures import reported
from tf_plugins import SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tf-bench`` and return its exit code: 0, 1 where a reply failed or differed, 2 for wrong options.

    Args:
        argv: the arguments, program name left out; by default the process's own.
    """
    from tf_host.bench.options import parse

    options = parse(sys.argv[1:] if argv is None else argv)
    return reported("tf-bench", lambda: asyncio.run(_bench(options)))


async def _bench(options: argparse.Namespace) -> int:
    from rich.console import Console

    from tf_host.bench.client import Client
    from tf_host.bench.options import plan_of
    from tf_host.bench.report import cell_record, table, window_record
    from tf_host.bench.summary import summarise
    from tf_host.bench.windows import Window, run

    plan = plan_of(options)
    common: dict[str, Any] = {"model": options.model, "key": options.api_key, "timeout": options.timeout}
    people = sys.stdout.isatty() and not options.json
    steps: list[tuple[Window, ...]] = []
    with ExitStack() as files:
        sinks: list[TextIO] = [] if people else [sys.stdout]
        if options.output is not None:
            sinks.append(files.enter_context(_opened(options.output)))
        servers = [Client(options.url, label=options.label, **common)]
        if options.against is not None:
            servers.append(Client(options.against, label=options.against_label, **common))
        try:
            for server in servers:
                await server.greet()
            async for windows in run(plan, servers):
                steps.append(windows)
                for window in windows:
                    _write(window_record(window), sinks)
                _progress(len(steps), len(plan.steps), windows)
        finally:
            for server in servers:
                await server.close()
        cells = summarise(steps)
        for cell in cells:
            _write(cell_record(cell), sinks)
    if people:
        Console().print(table(cells))
    return 0 if all(cell.passed for cell in cells) else 1


def _opened(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--output {path} cannot be written: {error.strerror}\nhint: name another file") from error


def _write(record: dict[str, Any], sinks: Sequence[TextIO]) -> None:
    for sink in sinks:
        print(json.dumps(record, ensure_ascii=False), file=sink, flush=True)


def _progress(done: int, of: int, windows: Sequence[Any]) -> None:
    """One line on stderr: where the bench is, and what went wrong in this window."""
    rates = " / ".join("-" if window.rate is None else f"{window.rate:.1f}" for window in windows)
    cell = windows[0].cell
    print(f"{done}/{of}  T={cell.temperature:g} x{cell.streams}  {rates} tok/s", file=sys.stderr)
    for window in windows:
        for use, reply in zip(window.uses, window.replies, strict=True):
            if reply.problem is not None:
                print(f"  {window.label}: {use.prompt.id}: {reply.problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

"""Servers of a bench, each a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

HERE = Path(__file__).resolve().parent
READY_S = 600.0


@dataclass(frozen=True)
class Server:
    """How a server is started.

    Attributes:
        label: names it in the results.
        command: its command line, the port left out.
        model: the model that it is asked for.
        env: environment variables besides this process's own.
    """

    label: str
    command: tuple[str, ...]
    model: str | None = None
    env: dict[str, str] = field(default_factory=dict)


def tf_serve(label: str, *options: str) -> Server:
    """``tf-serve`` with nothing kept between requests."""
    command = (sys.executable, "-m", "tf_host.cli.serve", "--family", "llama", "--prompt-cache-gib", "0", *options)
    return Server(label, command)


def mlx_lm(label: str, folder: Path, *options: str, same: bool = False) -> Server:
    """``mlx_lm.server`` on a folder, as it comes or with the ``same`` MKL and float32 as ``tf-serve``."""
    start = ("-m", "benchmarks.on_cpu.mlx_same") if same else ("-m", "mlx_lm", "server")
    cache = ("--prompt-cache-size", "0", "--log-level", "WARNING")
    return Server(label, (sys.executable, *start, "--model", str(folder), *cache, *options), model="default_model")


@contextmanager
def running(servers: Sequence[Server], logs: Path) -> Iterator[list[str]]:
    """Start the servers one after another, yield their addresses, and stop them."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        urls = []
        for server in servers:
            url, process = _start(server, logs)
            processes.append(process)
            _wait(server, url, process, logs)
            urls.append(url)
        yield urls
    finally:
        for process in processes:
            _stop(process)


def end_with_what_was_started() -> None:
    """On SIGTERM, leave as by an exception, so that servers are stopped and their memory is free again."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def _start(server: Server, logs: Path) -> tuple[str, subprocess.Popen[bytes]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs.mkdir(parents=True, exist_ok=True)
    with _log(server, logs).open("wb") as log:
        process = subprocess.Popen(
            [*server.command, "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | server.env,
            start_new_session=True,
        )
    return f"http://127.0.0.1:{port}", process


def _wait(server: Server, url: str, process: subprocess.Popen[bytes], logs: Path) -> None:
    """Until it answers; a server that ends first is an error with the end of its log."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/v1/models", timeout=5.0).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    tail = _log(server, logs).read_text(errors="replace")[-2_000:]
    raise RuntimeError(f"{server.label} did not start:\n{tail}")


def _log(server: Server, logs: Path) -> Path:
    return logs / f"{server.label.replace(' ', '-')}.log"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

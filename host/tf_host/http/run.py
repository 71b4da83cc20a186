"""Runs the application until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from tf_host.http.protocol import MOST_HEADER_BYTES, protocol
from tf_host.http.server import Limits
from tf_host.http.traffic import Traffic

logger = logging.getLogger("tf_host.http")

_LAST_BYTES_S = 2
"""Seconds for connections to close once every reply has ended."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last is a terminal that closed; under ``nohup`` it is ignored, and stays so."""


def run(app: FastAPI, listener: socket.socket, grace_s: float) -> None:
    """Serve on a bound socket until SIGTERM, SIGINT or SIGHUP.

    The first signal lets running replies finish for ``grace_s`` seconds while new ones get 503; then this returns.
    A second SIGINT ends the process at once, with status 130.
    """
    Server(app, grace_s).run(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn with a shutdown that keeps listening while replies finish.

    Args:
        app: made by ``make_app``.
        grace_s: seconds that running replies get.
    """

    def __init__(self, app: FastAPI, grace_s: float) -> None:
        # Streams end by themselves here; sse-starlette would cut them at the first signal.
        AppStatus.enable_automatic_graceful_drain = False
        limits: Limits = app.state.served.limits
        self._traffic: Traffic = app.state.traffic
        self._grace_s = grace_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol(limits.header_s),
                h11_max_incomplete_event_size=MOST_HEADER_BYTES,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="warning",  # its lines are about processes, and one tells people to press CTRL+C again
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=int(limits.idle_s),
                timeout_graceful_shutdown=_LAST_BYTES_S,
            )
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until a shutdown is over."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def stop(self) -> None:
        """Begin a shutdown; from any thread, or a signal handler."""
        if self._loop is None:
            self.should_exit = True
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the shutdown is over
            self._loop.call_soon_threadsafe(self._begin)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins a shutdown; a second SIGINT ends the process."""
        if sig == signal.SIGINT and self._captured_signals:
            os._exit(130)
        self._captured_signals.append(sig)
        self.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals while serving; unlike uvicorn's own, does not raise them again: the exit is clean."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        caught = [sig for sig in _SIGNALS if not (nohup and sig == signal.SIGHUP)]
        before = {sig: signal.signal(sig, self.handle_exit) for sig in caught}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def _begin(self) -> None:
        if self._drain is None:
            self._drain = asyncio.ensure_future(self._finish())

    async def _finish(self) -> None:
        left = self._traffic.replies
        logger.info(
            "shutting down: %s",
            f"{left} {'reply has' if left == 1 else 'replies have'} up to {self._grace_s:g} s to finish"
            if left
            else "no reply is running",
        )
        await self._traffic.drain(self._grace_s)
        self.should_exit = True

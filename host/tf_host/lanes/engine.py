"""The one thread that owns MLX."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tf_host.lanes.faults import log_fault
from tf_host.lanes.lanes import Lanes
from tf_host.lanes.stream import Client
from tf_host.lanes.totals import Snapshot
from tf_host.requests import Failed, GenerateRequest

_log = logging.getLogger(__name__)

T = TypeVar("T")


class EngineThread:
    """Runs everything that calls MLX on one thread: load, probe and warm-up through ``call``, then the lanes.

    MLX keeps streams, graph caches and compiled functions by thread, so what was warmed is what serves.
    """

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._lanes: Lanes | None = None
        self._busy = False
        self._deadline: float | None = None
        self._release: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def call(self, fn: Callable[[], T]) -> T:
        """Run ``fn`` on the thread, between two turns of the lanes; its result, or what it raised."""
        if threading.current_thread() is self._thread:
            return fn()
        result: Future[T] = Future()

        def job() -> None:
            try:
                result.set_result(fn())
            except BaseException as error:  # the caller's to handle, whatever it is
                result.set_exception(error)

        with self._wake:
            if self._deadline is not None:
                raise RuntimeError("the engine has been stopped")
            self._jobs.append(job)
            self._wake.notify()
        return result.result()

    def serve(self, lanes: Lanes) -> None:
        """Start to turn the lanes over; returns at once."""
        with self._wake:
            self._lanes = lanes
            self._busy = True
            self._wake.notify()

    def submit(self, request: GenerateRequest, client: Client) -> None:
        """Queue a request, from any thread."""
        if self._lanes is None or not self.alive:
            client.send(Failed("the server is not serving", code="shutting_down", status=503))
            return
        self._lanes.submit(request, client)
        with self._wake:
            self._busy = True
            self._wake.notify()

    def snapshot(self) -> Snapshot | None:
        """The lanes now, from any thread; ``None`` before ``serve``."""
        return None if self._lanes is None else self._lanes.snapshot()

    def stop(self, grace_s: float, release: Callable[[], None] | None = None) -> None:
        """Refuse what comes, let running replies go on for ``grace_s`` seconds, end the rest, and join the thread.

        ``release`` is called on the thread last, with every stream gone. A second call may shorten the first.
        """
        with self._wake:
            deadline = time.monotonic() + grace_s
            self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
            self._release = release or self._release
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            # Nothing is meant to get here. Whoever waits is told all the same, and so is whoever asks for /health.
            log_fault(_log, "the engine's thread ends; nothing is served any more", error)
            if self._lanes is not None:
                self._guarded(Lanes.close)
                self._lanes.fail_all(error)

    def _loop(self) -> None:
        while self._deadline is None:
            self._work()
        self._guarded(Lanes.close)
        while time.monotonic() < self._deadline and self._work():
            pass
        self._guarded(Lanes.end_all)
        for job in self._jobs:
            job()
        if self._release is not None:
            try:
                self._release()
            except BaseException as error:
                log_fault(_log, "not everything could be released", error)

    def _work(self) -> bool:
        """Run one job, or one turn of the lanes; waits when there is neither. ``False`` when the lanes are done."""
        with self._wake:
            while not (self._jobs or self._busy or self._deadline is not None):
                self._wake.wait()
            job = self._jobs.popleft() if self._jobs else None
            busy, self._busy = self._busy, False
        if job is not None:
            job()
            more = busy
        else:
            more = bool(self._guarded(Lanes.step))
        if more:
            self._busy = True
        return more or bool(self._jobs)

    def _guarded(self, method: Callable[[Lanes], T]) -> T | None:
        """Call a method of the lanes; a fault of their own ends their streams, never the thread."""
        if self._lanes is None:
            return None
        try:
            return method(self._lanes)
        except BaseException as error:  # SystemExit too: a plugin's code is no reason to end the thread
            log_fault(_log, "the lanes failed; every stream is ended", error)
            self._lanes.fail_all(error)
        return None

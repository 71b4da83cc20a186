"""The replies being made, and whether new ones may start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tf_host.http.errors import refuse
from tf_host.requests import Failed, Handle


class Traffic:
    """Counts replies so that a shutdown can wait for them; used on the event loop only."""

    def __init__(self) -> None:
        self.draining = False
        self._open: set[Handle] = set()
        self._requests = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def requests(self) -> int:
        """Requests for replies that are being answered."""
        return self._requests

    def check(self) -> None:
        """Raises ``Refused`` once the server is shutting down."""
        if self.draining:
            raise refuse("shutting_down", "the server is shutting down", "try another server", status=503)

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request for a reply, until the last byte of its answer."""
        self._requests += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._quiet.set()

    def opened(self, handle: Handle) -> None:
        """A reply was handed to the engine."""
        self._open.add(handle)

    def closed(self, handle: Handle) -> None:
        """A reply is over; a running one is cancelled."""
        handle.cancel()
        self._open.discard(handle)

    async def drain(self, grace_s: float) -> None:
        """Refuse new replies and wait for the running ones; those still there after ``grace_s`` end in an error."""
        self.draining = True
        try:
            async with asyncio.timeout(grace_s):
                await self._quiet.wait()
        except TimeoutError:
            for handle in self._open:
                handle.cancel()
                handle.send(Failed("the server is shutting down", "shutting_down", 503))

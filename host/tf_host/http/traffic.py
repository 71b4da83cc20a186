"""The replies being made, and whether new ones may start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tf_host.http.errors import refuse
from tf_host.requests import Failed, Handle


class Traffic:
    """Counts replies so that a shutdown can wait for them; used on the event loop only."""

    def __init__(self) -> None:
        self.draining = False
        self._open: set[Handle] = set()
        self._arriving: set[asyncio.Timeout] = set()
        self._requests = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def requests(self) -> int:
        """Requests for replies that are being answered."""
        return self._requests

    @property
    def replies(self) -> int:
        """Replies that the engine makes, or has queued."""
        return len(self._open)

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

    @asynccontextmanager
    async def arriving(self, seconds: float) -> AsyncIterator[None]:
        """A body on its way: it is no reply yet, so a shutdown cuts it instead of waiting.

        Raises:
            Refused: it took more than ``seconds``, or the server is shutting down.
        """
        self.check()
        limit = asyncio.timeout(seconds)
        self._arriving.add(limit)
        try:
            async with limit:
                yield
        except TimeoutError as error:
            self.check()
            reason, hint = f"the body did not arrive within {seconds:g} s", "send it faster, or a shorter one"
            raise refuse("request_timeout", reason, hint, status=408) from error
        finally:
            self._arriving.discard(limit)

    def opened(self, handle: Handle) -> None:
        """A reply was handed to the engine."""
        self._open.add(handle)

    def closed(self, handle: Handle) -> None:
        """A reply is over; a running one is cancelled."""
        if handle in self._open:
            self._open.discard(handle)
            handle.cancel()

    async def drain(self, grace_s: float) -> None:
        """Refuse new replies and wait for the running ones; those still there after ``grace_s`` end in an error."""
        self.draining = True
        for limit in self._arriving:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(grace_s):
                await self._quiet.wait()
        except TimeoutError:
            # Not cancelled, which would be told as the client's leaving: the engine ends them when it stops.
            cut, self._open = self._open, set()
            for handle in cut:
                handle.send(Failed("the server is shutting down", "shutting_down", 503))

"""The client's end of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tf_host.requests.events import Done, Event, Failed


class Handle:
    """Events of one stream, for one reader on the event loop that made it.

    The engine thread calls ``send``; the client iterates, and calls ``cancel`` when it leaves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.cancelled = False
        self._over = False

    def send(self, event: Event) -> None:
        """Deliver an event from any thread; dropped behind the last one, and once the client's loop is gone."""
        if self._over:
            return
        self._over = isinstance(event, Done | Failed)
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop is closed: nobody is left to read
            self.cancelled = True

    def cancel(self) -> None:
        """The client left; the engine frees the stream at the next round or prompt chunk."""
        self.cancelled = True

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Events up to and including ``Done`` or ``Failed``."""
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Done | Failed):
                return

"""From a prepared request to its response: submit, follow the events, notice when the client leaves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tf_host.http import log
from tf_host.http.body import ClientLeft
from tf_host.http.errors import error_body, error_response
from tf_host.http.metrics import Metrics
from tf_host.http.prepare import Prepared
from tf_host.http.server import Limits, Served
from tf_host.http.traffic import Traffic
from tf_host.requests import Delta, Done, Event, Failed, Handle, Reading


class Reply(Protocol):
    """Writes the events of a reply as JSON; see ``ChatReply`` and ``CompletionReply``."""

    def start(self) -> list[dict[str, Any]]:
        """The chunks before any token."""

    def delta(self, delta: Delta) -> list[dict[str, Any]]:
        """The chunks of one round."""

    def end(self, done: Done) -> list[dict[str, Any]]:
        """The chunks after the last token."""

    def whole(self, deltas: list[Delta], done: Done) -> dict[str, Any]:
        """The reply that is not streamed."""


async def generate(request: Request, served: Served, traffic: Traffic, prepared: Prepared, reply: Reply) -> Response:
    """The response to a prepared request.

    Raises:
        Refused: the engine took no more requests.
        ClientLeft: the client closed its connection; its stream is cancelled.
    """
    traffic.check()
    handle = Handle(asyncio.get_running_loop())
    served.engine.submit(prepared.request, handle)
    running = Running(handle, traffic, served.metrics)
    gone = asyncio.ensure_future(_gone(request))
    try:
        if not prepared.body.stream:
            return await _whole(running, reply, gone)
        events = running.events()
        first = running.first = asyncio.ensure_future(_next(events))
        waiting: set[asyncio.Future[Any]] = {first, gone}
        await asyncio.wait(waiting, timeout=served.limits.ping_s, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ClientLeft
        if first.done() and isinstance(event := first.result(), Failed):
            running.close()
            return error_response(event.message, status=event.status, code=event.code, param=event.param)
        return ReplyStream(running, reply, _resume(first, events), served.limits)
    except BaseException:
        running.close()
        raise
    finally:
        gone.cancel()


class Running:
    """One reply between submission and its end.

    Attributes:
        first: a stream's first event, while it is waited for.
    """

    def __init__(self, handle: Handle, traffic: Traffic, metrics: Metrics) -> None:
        self.handle = handle
        self.first: asyncio.Future[Event] | None = None
        self._traffic = traffic
        self._metrics = metrics
        self._begun: float | None = time.perf_counter()
        traffic.opened(handle)

    async def events(self) -> AsyncIterator[Event]:
        """The reply's events; the first token is timed."""
        async for event in self.handle:
            if self._begun is not None and isinstance(event, Delta):
                self._metrics.first_token(time.perf_counter() - self._begun)
                self._begun = None
            yield event

    def close(self) -> None:
        """The response is over, however it ended; a reply still running is cancelled."""
        self._traffic.closed(self.handle)
        if self.first is not None:
            self.first.cancel()


class ReplyStream(EventSourceResponse):
    """A reply as server-sent events; ends with ``[DONE]`` whatever happens."""

    def __init__(self, running: Running, reply: Reply, events: AsyncIterator[Event], limits: Limits) -> None:
        self._running = running
        super().__init__(
            _messages(reply, events),
            sep="\n",
            ping=limits.ping_s,
            ping_message_factory=lambda: ServerSentEvent(comment="waiting", sep="\n"),
            send_timeout=limits.send_s,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the stream; the client's leaving cancels the reply."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._running.close()


async def _messages(reply: Reply, events: AsyncIterator[Event]) -> AsyncIterator[ServerSentEvent]:
    try:
        for chunk in reply.start():
            yield _message(chunk)
        async for event in events:
            match event:
                case Reading(done=done, total=total):
                    yield ServerSentEvent(comment=f"reading {done}/{total}", sep="\n")
                case Delta():
                    for chunk in reply.delta(event):
                        yield _message(chunk)
                case Done():
                    for chunk in reply.end(event):
                        yield _message(chunk)
                case Failed():
                    yield _message(error_body(event.message, status=event.status, code=event.code, param=event.param))
    except Exception as error:
        log.fault(error, "a stream")
        yield _message(error_body("the server made a mistake", status=500, code="server_error"))
    yield ServerSentEvent("[DONE]", sep="\n")


def _message(data: dict[str, Any]) -> ServerSentEvent:
    # ASCII: some clients take U+2028 and its like for the end of a line.
    return ServerSentEvent(json.dumps(data, separators=(",", ":"), allow_nan=False), sep="\n")


async def _whole(running: Running, reply: Reply, gone: asyncio.Future[None]) -> Response:
    made = asyncio.ensure_future(_collect(running.events()))
    waiting: set[asyncio.Future[Any]] = {made, gone}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not made.done():
            raise ClientLeft
    finally:
        made.cancel()
    deltas, last = made.result()
    if isinstance(last, Failed):
        running.close()
        return error_response(last.message, status=last.status, code=last.code, param=last.param)
    body = reply.whole(deltas, last)
    running.close()
    return JSONResponse(body)


async def _collect(events: AsyncIterator[Event]) -> tuple[list[Delta], Done | Failed]:
    deltas: list[Delta] = []
    async for event in events:
        match event:
            case Delta():
                deltas.append(event)
            case Done() | Failed():
                return deltas, event
    raise RuntimeError("a stream ended without an end")


async def _gone(request: Request) -> None:
    """Returns once the client has closed its connection; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


async def _resume(first: asyncio.Future[Event], events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    yield await first
    async for event in events:
        yield event

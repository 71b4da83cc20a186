"""What every request passes through before it is routed."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tf_host.http import log
from tf_host.http.body import ClientLeft
from tf_host.http.errors import error_response
from tf_host.http.metrics import Metrics
from tf_host.http.traffic import Traffic


class Responses:
    """Counts responses; outermost, so that those of the others count, too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route's own path: one out of a request could be any text.
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.response(route, message["status"])
            await send(message)

        await self._app(scope, receive, counted)


class Faults:
    """Turns a bug into an OpenAI error body; around all the rest, so that nothing else writes about it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientLeft:
            return
        except TimeoutError:  # a stream's client that reads nothing
            return
        except asyncio.CancelledError:  # uvicorn's, for what is left at the end of a shutdown
            if not started:
                response = error_response("the server is shutting down", status=503, code="shutting_down")
                await response(scope, receive, send)
        except Exception as error:
            log.fault(error, f"{scope['method']} {scope['path']}")
            if not started:
                response = error_response("the server made a mistake", status=500, code="server_error")
                await response(scope, receive, send)


class Framing:
    """Refuses a request whose length is told in two ways: a proxy in front may believe the other one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and {"content-length", "transfer-encoding"} <= set(Headers(scope=scope)):
            response = error_response(
                "Content-Length and Transfer-Encoding cannot be sent together; send one of them",
                status=400,
                code="invalid_http",
            )
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


class Paths:
    """One spelling for each path: a slash at the end is dropped, and ``/v1`` may be left out."""

    _SHORT = ("/chat/completions", "/completions", "/models")

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            path = scope["path"].rstrip("/") or "/"
            if path.startswith(self._SHORT):
                path = f"/v1{path}"
            if path != scope["path"]:
                # In place: `Responses` reads the route off the scope that the request came with.
                scope["path"], scope["raw_path"] = path, path.encode()
        await self._app(scope, receive, send)


class Counted:
    """Counts the requests that a shutdown waits for."""

    def __init__(self, app: ASGIApp, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        waited_for = scope["type"] == "http" and scope["method"] == "POST"
        with self._traffic.request() if waited_for else nullcontext():
            await self._app(scope, receive, send)

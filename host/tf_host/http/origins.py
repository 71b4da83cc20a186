"""Which web pages may use the server."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tf_host.http.errors import error_response


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and no other."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Cors(CORSMiddleware):
    """Starlette's, with errors like any other."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser asks before it sends a page's request."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        if self.is_allowed_origin(request_headers["origin"]):
            text = f"pages of other origins may send {', '.join(self.allow_methods)}; ask for no more"
            if "access-control-request-private-network" in request_headers:
                text = "a page of a public address may not reach a server on a private one; serve it from that network"
            error = error_response(text, status=400, code="cors_not_allowed")
        else:
            error = _not_allowed()
        for name in ("vary", *(name for name in answer.headers if name.startswith("access-control-"))):
            error.headers[name] = answer.headers[name]
        return error


class OriginCheck:
    """Refuses what a browser sends on behalf of a page from elsewhere; other clients name no origin.

    Without this, a page could point its own name at this machine and use a server that asks for no key.

    Args:
        allowed: origins from the settings, or ``*``.
        keyed: whether requests need a key, which such a page does not have.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str], *, keyed: bool) -> None:
        self._app = app
        self._allowed = frozenset(allowed)
        self._keyed = keyed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if origin is not None and not self._may(origin, headers.get("host", "")):
                await _not_allowed()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _may(self, origin: str, own: str) -> bool:
        if origin in self._allowed or "*" in self._allowed:
            return True
        try:
            page = urlsplit(origin)
            host = page.hostname or ""
        except ValueError:
            return False
        # A name can be pointed anywhere, an address cannot.
        return is_loopback(host) or (page.netloc == own and (self._keyed or _is_address(host)))


def _not_allowed() -> JSONResponse:
    return error_response(
        "pages from this origin may not use the server; allow it with --cors ORIGIN",
        status=403,
        code="origin_not_allowed",
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

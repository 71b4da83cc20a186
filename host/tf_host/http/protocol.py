"""HTTP/1.1 on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tf_host.http.errors import error_response

MOST_HEADER_BYTES = 16_384
"""Of a request's first line and headers together."""

_SENTENCES = {
    "Missing mandatory Host: header": "the request has no Host header, which HTTP/1.1 needs; send one",
    "Found multiple Host: headers": "the request has more than one Host header; send one of them",
    "bad Content-Length": "Content-Length is not a whole number from 0 up; send the length of the body in bytes",
    "conflicting Content-Length headers": "the request has two values of Content-Length; send one of them",
    "multiple Transfer-Encoding headers": "the request has more than one Transfer-Encoding; send chunked alone",
    "Only Transfer-Encoding: chunked is supported": "Transfer-Encoding must be chunked; send that, or Content-Length",
    "Receive buffer too long": (
        f"the request's first line and headers are larger than {MOST_HEADER_BYTES:,} bytes; send fewer or shorter ones"
    ),
    "illegal chunk header": "a chunk of the body does not begin with its size in hexadecimal; send Content-Length",
    "illegal header line": "the request has a header line that is not 'Name: value'; correct it, or leave it out",
    "illegal request line": "the request's first line is not 'METHOD PATH HTTP/1.1'; speak that to this port, not TLS",
}
"""By what h11 says, which may go on with a part of the request."""


def protocol(header_s: float) -> type[H11Protocol]:
    """uvicorn's protocol, with a limit on how long the headers of a request may take, and errors of one form."""

    class Protocol(H11Protocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._await_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._headers_came()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
                self._await_headers()
            else:
                self._headers_came()

        def send_400_response(self, msg: str) -> None:
            answer = error_response(_said(sys.exception()), status=400, code="invalid_http")
            start = h11.Response(
                status_code=400, headers=[*answer.raw_headers, (b"connection", b"close")], reason=b"Bad Request"
            )
            with contextlib.suppress(h11.LocalProtocolError):  # a request that has its response already
                for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _await_headers(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(header_s, self.transport.close)

        def _headers_came(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol


def _said(error: BaseException | None) -> str:
    found = (sentence for begin, sentence in _SENTENCES.items() if str(error).startswith(begin))
    return next(found, "the request cannot be read as HTTP/1.1; speak that to this port, not TLS")

"""A small OpenAI-compatible server whose replies a test writes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Script:
    """One streamed reply.

    Attributes:
        ids: its token ids; each is sent as the text ``<id>``.
        step: seconds before each piece.
        wait: seconds before the first.
        sizes: tokens of each piece; one a piece past its end.
        finish: finish reason, or ``None`` to send none.
        cut: pieces after which the connection breaks, or ``None``.
        status: HTTP status; anything but 200 is an error body.
        error: sent as an event in place of the finish.
        done: whether ``[DONE]`` is sent.
        counted: completion tokens of ``usage``; by default the number of ids.
        tf: the ``tf`` block.
    """

    ids: list[int] = field(default_factory=lambda: [1, 2, 3])
    step: float = 0.0
    wait: float = 0.0
    sizes: tuple[int, ...] = ()
    finish: str | None = "stop"
    cut: int | None = None
    status: int = 200
    error: str | None = None
    done: bool = True
    counted: int | None = None
    tf: dict[str, Any] | None = None


Answer = Callable[[dict[str, Any]], Script]


@dataclass
class FakeServer:
    """The running server.

    Attributes:
        answer: the reply to a request's body.
        gives_ids: whether it honours ``return_token_ids``.
        refuses: a field that it answers with HTTP 400.
        bodies: what was asked, greetings left out.
    """

    answer: Answer = lambda body: Script()
    gives_ids: bool = True
    refuses: str | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    most_at_once: int = 0
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """Serve on a free port until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._json(200, {"object": "list", "data": [{"id": "fake"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.refuses in body:
                self._json(400, {"error": {"message": f"unknown field {server.refuses}"}})
                return
            greeting = "Say hello." in json.dumps(body)
            script = Script() if greeting else server.answer(body)
            with server._lock:
                if not greeting:
                    server.bodies.append(body)
                server._running += 1
                server.most_at_once = max(server.most_at_once, server._running)
            try:
                if script.status != 200:
                    self._json(script.status, {"error": {"message": "no"}})
                else:
                    self._stream(body, script)
            finally:
                with server._lock:
                    server._running -= 1

        def _json(self, status: int, record: dict[str, Any]) -> None:
            data = json.dumps(record).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, body: dict[str, Any], script: Script) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            time.sleep(script.wait)
            self._send(": keep-alive\n\n")
            left, sizes = list(script.ids), list(script.sizes)
            pieces = 0
            while left:
                size = sizes.pop(0) if sizes else 1
                piece, left = left[:size], left[size:]
                if pieces:
                    time.sleep(script.step)
                if pieces == script.cut:
                    self.close_connection = True  # no last chunk: the stream breaks
                    return
                self._event(self._choice(body, piece))
                pieces += 1
            if script.error is not None:
                self._event({"error": {"message": script.error}})
            elif script.finish is not None:
                self._event(self._choice(body, [], script.finish))
            counted = len(script.ids) if script.counted is None else script.counted
            usage: dict[str, Any] = {"choices": [], "usage": {"completion_tokens": counted}}
            self._event(usage | ({"tf": script.tf} if script.tf else {}))
            if script.done:
                self._send("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _choice(self, body: dict[str, Any], ids: list[int], finish: str | None = None) -> dict[str, Any]:
            text = "".join(f"<{token}>" for token in ids)
            choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
            choice |= {"delta": {"content": text} if text else {}} if "messages" in body else {"text": text}
            if server.gives_ids and body.get("return_token_ids"):
                choice["token_ids"] = ids
            return {"choices": [choice]}

        def _event(self, record: dict[str, Any]) -> None:
            self._send(f"data: {json.dumps(record)}\n\n")

        def _send(self, text: str) -> None:
            data = text.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()

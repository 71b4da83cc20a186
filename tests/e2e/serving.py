"""A real ``tf-serve`` in a process of its own, and a small client for it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

BLAS = {"stock": "none", "nocxx": "none", "mkl": "mkl", "mkl-plain": "mkl-plain"}


@dataclass
class Reply:
    """What a request got back."""

    status: int
    body: dict[str, Any]
    ids: list[int] = field(default_factory=list)
    text: str = ""
    reason: str | None = None

    @property
    def tf(self) -> dict[str, Any]:
        return self.body["tf"]


class Client:
    """Requests with token ids returned, greedy unless said otherwise."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=600)

    def chat(self, prompt: str | list[dict], **body: Any) -> Reply:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return self.post("/v1/chat/completions", messages=messages, **body)

    def complete(self, prompt: Any, **body: Any) -> Reply:
        return self.post("/v1/completions", prompt=prompt, **body)

    def post(self, path: str, **body: Any) -> Reply:
        body = {"temperature": 0, "return_token_ids": True, **body}
        answer = self.http.post(path, json=body)
        parsed = answer.json()
        if answer.status_code != 200:
            return Reply(answer.status_code, parsed)
        choice = parsed["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return Reply(200, parsed, choice["token_ids"], text, choice["finish_reason"])

    def stream(self, prompt: str, stop_after: int | None = None, **body: Any) -> Reply:
        """A streamed chat; with ``stop_after``, the client leaves once that many tokens came."""
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "return_token_ids": True,
            "stream": True,
            **body,
        }
        reply = Reply(0, {})
        with self.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            reply.status = answer.status_code
            for line in answer.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line[6:])
                reply.body.update(chunk)
                for choice in chunk.get("choices", ()):
                    reply.ids += choice.get("token_ids") or []
                    reply.text += choice["delta"].get("content") or ""
                    reply.reason = choice.get("finish_reason") or reply.reason
                if stop_after is not None and len(reply.ids) >= stop_after:
                    return reply
        return reply

    def health(self) -> dict[str, Any]:
        return self.http.get("/health").json()


class Parallel:
    """Calls run in threads of their own, their results collected by name."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, call: Any, *args: Any, **kwargs: Any) -> None:
        def run() -> None:
            try:
                self.results[name] = call(*args, **kwargs)
            except Exception as error:
                self.results[name] = error

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def join(self) -> dict[str, Any]:
        for thread in self._threads:
            thread.join(600)
        for name, result in self.results.items():
            if isinstance(result, Exception):
                raise AssertionError(f"{name} failed") from result
        return self.results


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(*args: str, log: Path, env: dict[str, str] | None = None, wait_s: float = 900) -> Iterator[Client]:
    """A running ``tf-serve``; its log goes to ``log``. Ended with SIGTERM."""
    port = free_port()
    backend = os.environ.get("TF_TEST_BACKEND", "stock")
    command = [sys.executable, "-m", "tf_host.cli.serve", *args]
    command += ["--port", str(port), "--cpu-blas", BLAS[backend]]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
        client = Client(f"http://127.0.0.1:{port}")
        try:
            deadline = time.monotonic() + wait_s
            while True:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"tf-serve did not start:\n{log.read_text()[-4000:]}")
                with contextlib.suppress(httpx.TransportError):
                    if client.http.get("/health").status_code == 200:
                        break
                time.sleep(0.2)
            yield client
        finally:
            client.http.close()
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""Requests to one server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import httpx

from tf_host.bench.prompts import Prompt
from tf_host.bench.reply import Reply
from tf_plugins import TfError

__all__ = ["BenchError", "Client"]


class BenchError(TfError):
    """The bench cannot go on: a server that cannot be reached, or that refuses what is asked."""


class Client:
    """One OpenAI-compatible server.

    Args:
        url: its address, with or without ``/v1``.
        label: names it in the results; by default its host and port.
        model: the model to ask for; by default the first that it lists.
        key: an API key, or ``None``.
        timeout: seconds without a byte after which a request has failed.
        transport: for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        label: str | None = None,
        model: str | None = None,
        key: str | None = None,
        timeout: float = 600.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        base = url.rstrip("/").removesuffix("/v1")
        if not base.startswith(("http://", "https://")):
            base = f"http://{base}"
        self.url = base
        self.label = label or httpx.URL(base).netloc.decode()
        self.model = model
        # Fields that not every server knows; one that refuses them is asked without.
        self._extras: dict[str, Any] = {"return_token_ids": True}
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout, connect=10.0),
            limits=httpx.Limits(max_connections=None),
            transport=transport,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def find_model(self) -> None:
        """Take the first model that the server lists, where none was named; raises ``BenchError`` without one."""
        if self.model is None:
            self.model = await self._first_model()

    async def greet(self) -> None:
        """Find the model, and send one short request that is not timed.

        Raises:
            BenchError: the server cannot be reached, or does not answer the request.
        """
        await self.find_model()
        hello = Prompt("hello", "hello", messages=({"role": "user", "content": "Say hello."},))
        reply = await self.send(hello, 0, tokens=8, temperature=0.0, seed=1)
        if not reply.whole and (reply.error or "").startswith("HTTP 4"):
            self._extras = {}
            reply = await self.send(hello, 0, tokens=8, temperature=0.0, seed=1)
        if not reply.whole:
            raw = Prompt("hello", "hello", text="Hello")
            if not (await self.send(raw, 0, tokens=8, temperature=0.0, seed=1)).whole:
                raise BenchError(f"{self.url} does not answer: {reply.problem}\nhint: is it serving, and ready?")

    async def send(
        self,
        prompt: Prompt,
        number: int,
        *,
        tokens: int,
        temperature: float,
        seed: int,
        more: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Stream one reply; what goes wrong is in the reply, never raised.

        Args:
            prompt: what to send.
            number: makes this use of the prompt a text of its own.
            tokens: the most reply tokens.
            temperature: 0 for greedy.
            seed: the reply's seed.
            more: further fields of the body.
        """
        body = prompt.body(number) | {
            "model": self.model,
            "max_tokens": tokens,
            "temperature": temperature,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._extras,
            **(more or {}),
        }
        reply = Reply(started=time.perf_counter())
        try:
            async with self._http.stream("POST", prompt.route, json=body) as response:
                if response.status_code != 200:
                    await response.aread()
                    reply.error = f"HTTP {response.status_code}: {_message(response.text)}"
                else:
                    async for line in response.aiter_lines():
                        if line.startswith("data:") and not _read(reply, line[5:].strip()):
                            break
        except httpx.HTTPError as error:
            reply.error = f"{type(error).__name__}: {error}".removesuffix(": ")
        reply.ended = time.perf_counter()
        return reply

    async def _first_model(self) -> str:
        try:
            response = await self._http.get("/v1/models")
            return str(response.raise_for_status().json()["data"][0]["id"])
        except httpx.HTTPError as error:
            raise BenchError(f"{self.url} cannot be asked for its models: {error}\nhint: is it running?") from error
        except (ValueError, LookupError, TypeError) as error:
            raise BenchError(f"{self.url} lists no model\nhint: name one with --model") from error


def _read(reply: Reply, data: str) -> bool:
    """Take in one event; ``False`` at the end of the stream."""
    if data == "[DONE]":
        return False
    now = time.perf_counter()
    try:
        event = json.loads(data)
        choices = event.get("choices") or []
    except (ValueError, AttributeError):
        reply.error = f"an event that is no JSON object: {data[:80]}"
        return False
    if event.get("error"):
        reply.error = _message(json.dumps(event))
        return False
    if isinstance(event.get("usage"), dict) and event["usage"].get("completion_tokens") is not None:
        reply.counted = int(event["usage"]["completion_tokens"])
    reply.tf = event.get("tf") or reply.tf
    for choice in choices[:1]:
        delta = choice.get("delta") or {}
        text = choice.get("text") or (delta.get("reasoning_content") or delta.get("reasoning") or "")
        text += delta.get("content") or ""
        ids = choice.get("token_ids")
        if text or ids:
            if reply.first is None:
                reply.first, reply.first_tokens = now, len(ids) if ids else 1
            reply.last = now
            reply.text += text
            reply.pieces += 1
        if ids is not None:
            reply.ids = [*(reply.ids or []), *ids]
        if choice.get("finish_reason"):
            reply.finish, reply.last = choice["finish_reason"], now
    return True


def _message(text: str) -> str:
    """The message of an error body, cut short."""
    try:
        error = json.loads(text)["error"]
        text = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, LookupError, TypeError):
        pass
    return " ".join(text.split())[:200]

"""Completions, whole and in chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tf_host.http.accounts import tf_block, usage
from tf_host.http.logprobs import CompletionLogprobs
from tf_host.http.prepare import Prepared
from tf_host.http.server import Served
from tf_host.requests import Delta, Done, TokenInfo


class CompletionReply:
    """Builds the reply to one completion request from its events."""

    def __init__(self, served: Served, prepared: Prepared) -> None:
        self._served = served
        self._prepared = prepared
        self._logprobs = CompletionLogprobs(served.text)
        self._created = int(time.time())

    def start(self) -> list[dict[str, Any]]:
        """The chunks before any token: one with the prompt's ids, where they were asked for."""
        if not self._prepared.body.return_token_ids:
            return []
        chunk = self._chunk("", ())
        chunk["choices"][0]["prompt_token_ids"] = list(self._prepared.request.prompt)
        return [chunk]

    def delta(self, delta: Delta) -> list[dict[str, Any]]:
        """The chunks of one round."""
        wanted = delta.text or self._prepared.body.return_token_ids or self._prepared.request.logprobs is not None
        return [self._chunk(delta.text, delta.tokens)] if wanted else []

    def end(self, done: Done) -> list[dict[str, Any]]:
        """The chunks after the last token; the very last one carries the ``tf`` block."""
        chunks = [self._chunk("", (), done.reason)]
        if self._prepared.body.include_usage:
            chunks.append(self._base() | {"choices": [], "usage": usage(done)})
        chunks[-1]["tf"] = tf_block(self._prepared, done)
        return chunks

    def whole(self, deltas: list[Delta], done: Done) -> dict[str, Any]:
        """The reply that is not streamed."""
        tokens = tuple(token for delta in deltas for token in delta.tokens)
        reply = self._chunk("".join(delta.text for delta in deltas), tokens, done.reason)
        if self._prepared.body.return_token_ids:
            reply["choices"][0]["prompt_token_ids"] = list(self._prepared.request.prompt)
        return reply | {"usage": usage(done), "tf": tf_block(self._prepared, done)}

    def _chunk(self, text: str, tokens: Sequence[TokenInfo], reason: str | None = None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        if tokens and self._prepared.request.logprobs is not None:
            choice["logprobs"] = self._logprobs.of(tokens)
        if self._prepared.body.return_token_ids:
            choice["token_ids"] = [token.id for token in tokens]
            choice["sources"] = [token.source for token in tokens]
            choice["pieces"] = [token.text for token in tokens]
        chunk = self._base() | {"choices": [choice]}
        return chunk | {"usage": None} if self._prepared.body.include_usage else chunk

    def _base(self) -> dict[str, Any]:
        return {
            "id": self._prepared.request.id,
            "object": "text_completion",
            "created": self._created,
            "model": self._prepared.model,
            "system_fingerprint": self._served.fingerprint,
        }

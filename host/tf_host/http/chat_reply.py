"""Chat replies, whole and in chunks."""

from __future__ import annotations

import time
from typing import Any

from tf_host.http.accounts import tf_block, usage
from tf_host.http.answer import Answer, Fields, message_of
from tf_host.http.logprobs import chat_logprobs
from tf_host.http.prepare import Prepared
from tf_host.http.server import Served
from tf_host.requests import Delta, Done, TokenInfo


class ChatReply:
    """Builds the reply to one chat request from its events."""

    def __init__(self, served: Served, prepared: Prepared) -> None:
        self._served = served
        self._prepared = prepared
        self._answer = Answer(served.text.thinking, prepared.phase, prepared.tools)
        self._created = int(time.time())

    def start(self) -> list[dict[str, Any]]:
        """The chunks before any token."""
        first = self._chunk({"role": "assistant", "content": ""})
        if self._prepared.body.return_token_ids:
            first["prompt_token_ids"] = list(self._prepared.request.prompt)
        return [first]

    def delta(self, delta: Delta) -> list[dict[str, Any]]:
        """The chunks of one round."""
        return self._chunks(self._answer.feed(delta.text), delta.tokens)

    def end(self, done: Done) -> list[dict[str, Any]]:
        """The chunks after the last token; the very last one carries the ``tf`` block."""
        chunks = self._chunks(self._answer.finish(complete=done.reason == "stop"), ())
        chunks.append(self._chunk({}, self._reason(done)))
        if self._prepared.body.include_usage:
            chunks.append(self._base("chat.completion.chunk") | {"choices": [], "usage": self._usage(done)})
        chunks[-1]["tf"] = tf_block(self._prepared, done)
        return chunks

    def whole(self, deltas: list[Delta], done: Done) -> dict[str, Any]:
        """The reply that is not streamed."""
        fields = self._answer.feed("".join(delta.text for delta in deltas))
        fields += self._answer.finish(complete=done.reason == "stop")
        choice = {
            "index": 0,
            "message": message_of(fields),
            "finish_reason": self._reason(done),
            "logprobs": None,
        }
        tokens = [token for delta in deltas for token in delta.tokens]
        reply = self._base("chat.completion") | {
            "choices": [choice | self._details(tokens)],
            "usage": self._usage(done),
        }
        if self._prepared.body.return_token_ids:
            reply["prompt_token_ids"] = list(self._prepared.request.prompt)
        return reply | {"tf": tf_block(self._prepared, done)}

    def _usage(self, done: Done) -> dict[str, Any]:
        return usage(done, self._served.text.thinking, self._prepared.phase)

    def _reason(self, done: Done) -> str:
        return "tool_calls" if self._answer.called and done.reason == "stop" else done.reason

    def _chunks(self, deltas: list[Fields], tokens: tuple[TokenInfo, ...]) -> list[dict[str, Any]]:
        details = self._details(tokens) if tokens else {}
        chunks = [self._chunk(fields) for fields in deltas or ([{}] if details else [])]
        if chunks:  # all of the round's tokens go with its first piece of text
            chunks[0]["choices"][0] |= details
        return chunks

    def _details(self, tokens: list[TokenInfo] | tuple[TokenInfo, ...]) -> Fields:
        details: Fields = {}
        if self._prepared.request.logprobs is not None:
            details["logprobs"] = chat_logprobs(self._served.text, tokens)
        if self._prepared.body.return_token_ids:
            details["token_ids"] = [token.id for token in tokens]
            details["sources"] = [token.source for token in tokens]
            details["pieces"] = [token.text for token in tokens]
        return details

    def _chunk(self, fields: Fields, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": fields, "logprobs": None, "finish_reason": reason}
        chunk = self._base("chat.completion.chunk") | {"choices": [choice]}
        return chunk | {"usage": None} if self._prepared.body.include_usage else chunk

    def _base(self, kind: str) -> dict[str, Any]:
        return {
            "id": self._prepared.request.id,
            "object": kind,
            "created": self._created,
            "model": self._prepared.model,
            "system_fingerprint": self._served.fingerprint,
        }

"""An engine that answers from a script, for tests of the HTTP side: no model, a thread for each reply."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tf_host.requests import Delta, Done, Failed, GenerateRequest, Handle, Reading, TokenInfo


@dataclass
class Script:
    """One reply.

    Attributes:
        tokens: what the model would say; the engine ends it at an end token, a stop string or the limit.
        source: who proposed every second token.
        sources: whose draft each token was, in turn, instead; a round ends with each ``"target"``.
        rounds: tokens a round.
        logprob: what each token is reported with.
        reading: prompt chunks, each told as a ``Reading``.
        pause: seconds before each round and chunk.
        queued: seconds in the queue.
        fail_after: tokens after which the engine gives up, or ``None``.
        cached: prompt tokens from a kept state.
    """

    tokens: Sequence[int] = ()
    source: str = "copy"
    sources: Sequence[str] = ()
    rounds: int = 3
    logprob: float = -0.5
    reading: int = 0
    pause: float = 0.0
    queued: float = 0.0
    fail_after: int | None = None
    cached: int = 0


@dataclass
class ScriptedEngine:
    """Plays ``script`` for every request, or what ``script(request)`` gives."""

    script: Script | Callable[[GenerateRequest], Script] = field(default_factory=Script)
    refuse: Exception | None = None
    alive: bool = True
    requests: list[GenerateRequest] = field(default_factory=list)
    handles: list[Handle] = field(default_factory=list)
    cancelled: dict[str, float] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    def reset(self) -> None:
        """As new, once every reply is over."""
        assert self.wait_idle()
        self.script, self.refuse, self.alive = Script(), None, True
        self.requests, self.handles, self.cancelled = [], [], {}

    def submit(self, request: GenerateRequest, handle: Handle) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.requests.append(request)
        self.handles.append(handle)
        self.running.add(request.id)
        script = self.script(request) if callable(self.script) else self.script
        threading.Thread(target=self._play, args=(request, handle, script), daemon=True).start()

    def snapshot(self) -> dict[str, Any]:
        return {"decoding": len(self.running), "waiting": 0, "parallel": 2}

    def wait_idle(self, seconds: float = 5.0) -> bool:
        """Whether every reply is over, once they had that long."""
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            time.sleep(0.002)
        return not self.running

    def _play(self, request: GenerateRequest, handle: Handle, script: Script) -> None:
        try:
            self._reply(request, handle, script)
        finally:
            self.running.discard(request.id)

    def _wait(self, request: GenerateRequest, handle: Handle, seconds: float) -> bool:
        """Sleeps as an engine works: in steps, looking at ``handle.cancelled`` between them."""
        end = time.monotonic() + seconds
        while True:
            if handle.cancelled:
                self.cancelled[request.id] = time.monotonic()
                handle.send(Failed("the client left", "cancelled", 499))
                return False
            if time.monotonic() >= end:
                return True
            time.sleep(min(0.002, seconds))

    def _reply(self, request: GenerateRequest, handle: Handle, script: Script) -> None:
        begun = time.monotonic()
        if not self._wait(request, handle, script.queued):
            return
        for chunk in range(script.reading):
            handle.send(Reading(chunk, script.reading))
            if not self._wait(request, handle, script.pause):
                return
        reader = request.reader()
        reply: list[int] = []
        drafted: Counter[str] = Counter()
        reason: str | None = None
        rounds, started = 0, time.monotonic()
        pending = list(script.tokens)
        while reason is None:
            if not self._wait(request, handle, script.pause):
                return
            rounds += 1
            text, infos, told = "", [], 0
            for _ in range(1_000 if script.sources else script.rounds):
                if script.fail_after is not None and len(reply) >= script.fail_after:
                    handle.send(Failed("the forward failed", "server_error", 500))
                    return
                token = pending.pop(0) if pending else next(iter(request.end_ids), 0)
                if script.sources:
                    source = script.sources[len(reply) % len(script.sources)]
                else:
                    source = script.source if len(reply) % 2 else "target"
                if source != "target":
                    drafted[source] += 1
                wanted = request.logprobs
                top = tuple((token + i, script.logprob - i) for i in range(wanted)) if wanted else ()
                infos.append(TokenInfo(token, source, None if wanted is None else script.logprob, top))
                reply.append(token)
                if token in request.end_ids:
                    reason = "stop"
                    text += reader.finish()
                else:
                    piece, stopped = reader.feed(token)
                    text += piece
                    if stopped:
                        reason = "stop"
                    elif len(reply) == request.max_tokens:
                        reason = "length"
                        text += reader.finish()
                infos[-1] = replace(infos[-1], text=text[told:])
                told = len(text)
                if reason or (script.sources and source == "target"):
                    break
            handle.send(Delta(text, tuple(infos)))
        now = time.monotonic()
        handle.send(
            Done(
                "stop" if reason == "stop" else "length",
                tuple(reply),
                len(request.prompt),
                script.cached,
                rounds,
                dict(drafted),
                dict(drafted),
                queued_s=script.queued,
                prompt_s=started - begun,
                decode_s=now - started,
            )
        )

"""How a stream's end is told: to its client, to the observers, and in one line of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tf_host.lanes.faults import log_fault
from tf_host.lanes.stream import Stream
from tf_host.requests import Done
from tf_plugins.types import RoundDone, StreamDone

_log = logging.getLogger("tf_host.lanes")

_GIB = 1 << 30


class Observer(Protocol):
    """Told of rounds and ends on the engine thread (the plugins, the metrics)."""

    def round_done(self, round: RoundDone) -> None:
        """A round is over."""

    def stream_done(self, stream: StreamDone) -> None:
        """A stream is over, however it ended."""


class Observers:
    """Tells every observer; one that raises is logged and goes no further."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def round_done(self, round: RoundDone) -> None:
        for observer in self._observers:
            try:
                observer.round_done(round)
            except BaseException as error:  # a plugin's; the engine's thread goes on
                log_fault(_log, f"observer {type(observer).__name__} failed on a round", error)

    def stream_done(self, stream: StreamDone) -> None:
        for observer in self._observers:
            try:
                observer.stream_done(stream)
            except BaseException as error:  # a plugin's; the engine's thread goes on
                log_fault(_log, f"observer {type(observer).__name__} failed on the end of a stream", error)


def reply_done(stream: Stream, reason: Literal["stop", "length"]) -> Done:
    """The client's last event of a complete reply."""
    now = time.perf_counter()
    request = stream.request
    return Done(
        reason=reason,
        tokens=tuple(stream.tokens[len(request.prompt) :]),
        prompt_tokens=len(request.prompt),
        cached_tokens=stream.cached,
        rounds=stream.rounds,
        drafted=dict(stream.drafted),
        kept=dict(stream.kept),
        queued_s=stream.admitted - stream.submitted,
        prompt_s=stream.first - stream.admitted,
        decode_s=now - stream.first,
    )


def stream_done(stream: Stream, reason: str, error: str | None) -> StreamDone:
    """What observers are told of a stream's end."""
    prompt = len(stream.request.prompt)
    return StreamDone(
        id=stream.request.id,
        reason=reason,
        prompt_tokens=prompt,
        cached_tokens=stream.cached,
        tokens=tuple(stream.tokens[prompt:]),
        rounds=stream.rounds,
        seconds=time.perf_counter() - stream.submitted,
        drafted=dict(stream.drafted),
        kept=dict(stream.kept),
        error=error,
    )


def log_end(stream: Stream, done: StreamDone, ledger: Mapping[str, int], budget: int, waiting: int) -> None:
    """The line of a finished request, with what the ledger holds after it."""
    seconds = time.perf_counter() - stream.first if stream.first else 0.0
    rate = (len(done.tokens) - 1) / seconds if len(done.tokens) > 1 and seconds > 0 else 0.0
    drafts = ", ".join(f"{name} {done.kept.get(name, 0)}/{count}" for name, count in done.drafted.items())
    _log.info(
        "%s: %s, prompt %d (cached %d), %d tokens in %d rounds, drafts kept: %s, %.1f tok/s; "
        "%s of %.1f GiB, %d waiting",
        done.id,
        done.reason if done.error is None else f"{done.reason} ({done.error})",
        done.prompt_tokens,
        done.cached_tokens,
        len(done.tokens),
        done.rounds,
        drafts or "none",
        rate,
        ", ".join(f"{kind} {held / _GIB:.2f}" for kind, held in ledger.items() if held) or "nothing held",
        budget / _GIB,
        waiting,
    )

"""Prompts, a chunk at a time, while replies keep their share: the target reads, and its proposers beside it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tf_host.lanes.admitting import Admitting
from tf_host.lanes.catching_up import CatchingUp
from tf_host.lanes.stream import Stream
from tf_host.requests import Reading
from tf_plugins.types import Model

PATIENCE = 8
"""A prompt passed over this often goes next."""

_TELL_EVERY = 1.0


class PromptReading:
    """Chooses the prompt whose chunk is read next, and reads it.

    Args:
        model: the target.
        admitting: keeps prompt states where they were planned.
        catching_up: lets proposers read.
        decode_share: share of the time, at least 0 and below 1, that replies keep while prompts are read.
    """

    def __init__(self, model: Model, admitting: Admitting, catching_up: CatchingUp, decode_share: float) -> None:
        if not 0 <= decode_share < 1:
            raise ValueError(f"a decode share of {decode_share} is not within 0 to 1")
        self._model = model
        self._admitting = admitting
        self._catching_up = catching_up
        self._owed_per_second = decode_share / (1 - decode_share)
        self._owed = 0.0

    def due(self, decoding: bool) -> bool:
        """Whether a chunk may be read now; always, when no reply is waiting for rounds."""
        if not decoding:
            self._owed = 0.0
        return self._owed <= 0

    def repay(self, seconds: float | None) -> None:
        """A round of replies took ``seconds`` while prompts waited to be read; ``None``: none waited."""
        # Rounds that were not shared earn a prompt nothing, and one round is the most that replies are ahead.
        self._owed = 0.0 if seconds is None else max(self._owed - seconds, -seconds)

    def next(self, streams: Sequence[Stream]) -> Stream:
        """The prompt with the fewest tokens left, or the first that was passed over ``PATIENCE`` times."""
        impatient = [stream for stream in streams if stream.passed >= PATIENCE]
        chosen = impatient[0] if impatient else min(streams, key=_tokens_left)
        for stream in streams:
            stream.passed = 0 if stream is chosen else stream.passed + 1
        return chosen

    def done(self, stream: Stream) -> bool:
        """Whether the stream's prompt is read."""
        return not stream.decoding.chunks and not stream.decoding.behind

    def read(self, stream: Stream) -> None:
        """Read one chunk of the stream's prompt, if one is left, and let its proposers keep up."""
        started = time.perf_counter()
        if stream.decoding.chunks:
            self._chunk(stream)
        self._catching_up.turn(stream)
        self._owed += (time.perf_counter() - started) * self._owed_per_second

    def _chunk(self, stream: Stream) -> None:
        """One chunk; keep the state that ends there, if one was planned."""
        live, prompt = stream.decoding, stream.request.prompt
        begin, end = live.chunks.popleft()
        self._model.prefill(live.cache, prompt[begin:end])
        while live.saves and live.saves[0] <= end:
            if live.saves[0] == end:
                self._admitting.save(stream)
            else:
                live.saves.popleft()  # inside the chunk, so no chunk start: nothing to keep
        now = time.perf_counter()
        if stream.told is None or now - stream.told >= _TELL_EVERY:
            stream.told = now
            stream.client.send(Reading(end, len(prompt)))


def _tokens_left(stream: Stream) -> int:
    return len(stream.request.prompt) - stream.decoding.cache.length

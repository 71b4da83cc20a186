"""A reply decoded before the port opens: it runs what will be served, and gives pricing its first measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from tf_host.lanes import Lanes
from tf_host.lanes.depths import Cut, Depths, DraftSample, Offer, RoundSample, StreamView
from tf_host.requests import Done, Event, Failed, GenerateRequest, Sampling

_DEPTHS = (0, 3, 0, 5, 1, 3, 2, 5, 7, 0, 3, 5, 11, 15, 3, 1)
"""Drafts of the rehearsed rounds in turn: plain rounds between, and every width once or more."""

_TOKENS = 96
"""Reply tokens of the rehearsal, at most."""

_PROMPT = 120
"""Prompt tokens of the rehearsal."""


class Rehearsal:
    """Depths in a fixed turn whatever they cost; what they cost goes to ``learning``.

    Attributes:
        depth: drafts of the round that was planned last.
        silent: whether no proposer had a draft the last time that they were asked.

    Args:
        learning: told of every draft and round.
        seconds: wall time after which rounds stay plain and the reply is left.
    """

    def __init__(self, learning: Depths, seconds: float) -> None:
        self._learning = learning
        self._until = time.monotonic() + seconds
        self._turn = 0
        self.depth = 0
        self.silent = False

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    def plan(self, streams: Sequence[StreamView]) -> Mapping[int, int]:
        self._learning.plan(streams)
        self.depth = _DEPTHS[self._turn % len(_DEPTHS)]
        self._turn += 1
        return {stream.id: min(self.depth, stream.most) for stream in streams}

    def choose(self, stream: StreamView, proposer: int) -> int:
        return self.depth

    def least(self, stream: StreamView, proposer: int) -> float:
        return 0.0

    def trim(self, offers: Sequence[Offer]) -> Mapping[int, Cut]:
        return {}

    def free(self, proposer: int) -> bool:
        return False

    def asks(self, streams: Sequence[StreamView], proposer: int) -> bool:
        return True

    def record_read(self, proposer: int, tokens: int, seconds: float) -> None:
        self._learning.record_read(proposer, tokens, seconds)

    def record_draft(self, sample: DraftSample) -> None:
        self.silent = not any(offer.tokens for offer in sample.offers)
        self._learning.record_draft(sample)

    def record_round(self, sample: RoundSample) -> None:
        self._learning.record_round(sample)

    def forget(self, stream: int) -> None:
        self._learning.forget(stream)


def rehearse(
    lanes: Callable[[Depths], Lanes], learning: Depths, prompt: Sequence[int], context: int, seconds: float
) -> None:
    """Decode a reply to a real prompt through lanes of its own, drafts of every depth included.

    Args:
        lanes: makes the lanes, given the depths to go by.
        learning: the depths that the server will go by.
        prompt: ids of a real prompt; cut where it would take more than half of ``context``.
        context: tokens of the longest stream.
        seconds: about how long it may take; a slow machine learns less, and serves the same replies.

    Raises:
        RuntimeError: the reply failed.
    """
    turn = Rehearsal(learning, seconds)
    read = tuple(prompt[: min(_PROMPT, context // 2)])
    rehearsed = lanes(turn)
    client = _Client()
    rehearsed.submit(
        GenerateRequest(
            id="rehearsal",
            prompt=read,
            sampling=Sampling(seed=0),
            max_tokens=min(_TOKENS, context - len(read)),
            end_ids=frozenset(),
            reader=_NoText,
            grammar=lambda: _Filler(turn, read[-1]),
        ),
        client,
    )
    while rehearsed.step():
        client.cancelled = turn.over
    if isinstance(client.last, Failed) and client.last.code != "cancelled":
        raise RuntimeError(f"the rehearsal before serving failed: {client.last.message}")


class _Client:
    """Remembers the last event."""

    def __init__(self) -> None:
        self.cancelled = False
        self.last: Done | Failed | None = None

    def send(self, event: Event) -> None:
        if isinstance(event, Done | Failed):
            self.last = event


class _NoText:
    """A reader that reads nothing."""

    def feed(self, token: int) -> tuple[str, bool]:
        return "", False

    def finish(self) -> str:
        return ""


class _Filler:
    """A grammar that allows everything, and drafts where no proposer does: the width of a round is timed all the same.

    Without it a server that only copies would time plain rounds alone, and could not price its first copy.
    """

    def __init__(self, turn: Rehearsal, last: int) -> None:
        self._turn = turn
        self._last = last

    def mask(self, path: tuple[int, ...]) -> None:
        return None

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        return len(draft)

    def commit(self, tokens: tuple[int, ...]) -> None:
        self._last = tokens[-1]

    def forced(self) -> tuple[int, ...]:
        return (self._last,) * self._turn.depth if self._turn.silent else ()

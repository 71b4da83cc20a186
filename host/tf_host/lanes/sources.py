"""The streams that a proposer drafts for, and those that it failed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tf_host.lanes import answers
from tf_host.lanes.answers import done, whole
from tf_host.lanes.faults import Failures
from tf_host.lanes.fence import Fence
from tf_plugins.types import Draft, DraftRequest, Growth, Outcome, Proposer

_log = logging.getLogger(__name__)

_NOTHING = Draft(())


class Source:
    """One proposer, in the order that proposers are asked.

    A stream whose proposer fails loses its drafts from it for the rest of its reply; one call serves all streams, so
    all of that call's streams do. A draft that breaks the rules is dropped. Both are failures: counted, and logged with
    the proposer's name.

    Attributes:
        reads_ahead: whether it has ``read``.

    Args:
        index: its place in the order.
        proposer: the plugin's object, or its fence.
        vocab: ids that a draft may hold.
    """

    def __init__(self, index: int, proposer: Proposer | Fence, vocab: int) -> None:
        self._fence = Fence.around(proposer)
        self.index = index
        self.name = self._fence.name
        self.reads_ahead = self._fence.reads_ahead
        self._vocab = vocab
        self._streams: set[int] = set()

    @property
    def failures(self) -> Failures:
        """How often the proposer failed, and how the last time."""
        return self._fence.failures

    @property
    def seconds(self) -> float:
        """What the proposer's calls took so far."""
        return self._fence.seconds

    def serves(self, stream: int) -> bool:
        """Whether the stream is open here and has not failed."""
        return stream in self._streams

    def growth(self, context: Sequence[int], tokens: int, room: int | None = None) -> Growth | None:
        """Bytes that opening takes, at most ``room`` of them new, or ``None`` where the proposer is not opened."""
        return self._fence.growth(context, tokens, room)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        """Open a stream; one that fails to open drafts nothing from here."""
        self._streams.add(stream)
        if not self._fence.ask("open", stream, context, tokens, check=done):
            self.close(stream)

    def unread(self, stream: int, length: int) -> int:
        """Context tokens that it would have to read first."""
        if stream not in self._streams:
            return 0
        unread = self._fence.ask("unread", stream, length, check=whole)
        if unread is None:
            self.close(stream)
        return unread or 0

    def read(self, stream: int, context: Sequence[int], most: int) -> int:
        """Let one that reads ahead read up to ``most`` tokens; how many fewer are unread now."""
        if stream not in self._streams or not self.reads_ahead:
            return 0
        before = self.unread(stream, len(context))
        if not self._fence.ask("read", stream, context, most, check=done, reading=True):
            self.close(stream)
            return 0
        return max(0, before - self.unread(stream, len(context)))

    def propose(self, requests: Sequence[DraftRequest], *, reading: bool = False) -> list[Draft]:
        """One valid draft a request, in order; an empty one proposes nothing.

        Args:
            requests: what is asked.
            reading: whether it has a context to read first.
        """

        def check(found: Any) -> list[Draft]:
            if not isinstance(found, Sequence):
                raise TypeError(f"its {type(found).__name__} is no sequence of Draft or None")
            if len(found) != len(requests):
                raise ValueError(f"{len(found)} answers to {len(requests)} requests")
            return [self._checked(draft, request) for draft, request in zip(found, requests, strict=True)]

        drafts = self._fence.ask("propose", list(requests), check=check, reading=reading)
        if drafts is None:
            for request in requests:
                self.close(request.stream)
            return [_NOTHING] * len(requests)
        return drafts

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Say what became of its drafts."""
        if not self._fence.ask("observe", list(outcomes), check=done):
            for outcome in outcomes:
                self.close(outcome.stream)

    def close(self, stream: int) -> None:
        """The stream ended, or drafts no more from here."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        self._fence.ask("close", stream, check=done)

    def _checked(self, draft: Draft | None, request: DraftRequest) -> Draft:
        if draft is None:
            return _NOTHING
        checked = answers.draft(draft)
        if what := answers.wrong(checked, request, self._vocab):
            if self._fence.failed("draft", f"a draft was dropped: {what}"):
                _log.warning("proposer %r: a draft was dropped: %s%s", self.name, what, self._fence.whose)
            return _NOTHING
        return checked

"""A proposer behind a fence: whatever it does, no reply changes and no stream ends."""

from __future__ import annotations

import logging
import operator
import traceback
from collections.abc import Sequence

from tf_host.lanes.faults import Failures, log_fault, one_line
from tf_plugins.types import Draft, DraftRequest, Growth, Outcome, Proposer, ReadsAhead

_log = logging.getLogger(__name__)


class Source:
    """One proposer, in the order that proposers are asked.

    A stream whose proposer raises loses its drafts from it for the rest of its reply; one call serves all streams, so
    all of that call's streams do. A draft that breaks the rules is dropped. Both are failures: counted, and logged with
    the proposer's name.

    Attributes:
        failures: how often the proposer failed, and how the last time.
        reads_ahead: whether it has ``read``.

    Args:
        index: its place in the order.
        proposer: the plugin's object.
        vocab: ids that a draft may hold.
    """

    def __init__(self, index: int, proposer: Proposer, vocab: int) -> None:
        self.index = index
        self.name = proposer.name
        self.failures = Failures()
        self.reads_ahead = isinstance(proposer, ReadsAhead)
        self._proposer = proposer
        self._vocab = vocab
        self._streams: set[int] = set()

    def serves(self, stream: int) -> bool:
        """Whether the stream is open here and has not failed."""
        return stream in self._streams

    def growth(self, context: Sequence[int], tokens: int) -> Growth | None:
        """Bytes that opening takes, or ``None`` where the proposer cannot say, so is not opened."""
        try:
            growth = self._proposer.growth(context, tokens)
            if not isinstance(growth, Growth):
                raise TypeError(f"its {type(growth).__name__} is no Growth")
            return growth
        except Exception as error:
            self._failed("growth", error)
            return None

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        """Open a stream; one that fails to open drafts nothing from here."""
        self._streams.add(stream)
        try:
            self._proposer.open(stream, context, tokens)
        except Exception as error:
            self._failed("open", error)
            self.close(stream)

    def unread(self, stream: int, length: int) -> int:
        """Context tokens that it would have to read first."""
        if stream not in self._streams:
            return 0
        try:
            return operator.index(self._proposer.unread(stream, length))
        except Exception as error:
            self._failed("unread", error)
            self.close(stream)
            return 0

    def read(self, stream: int, context: Sequence[int], most: int) -> int:
        """Let one that reads ahead read up to ``most`` tokens; how many fewer are unread now."""
        if stream not in self._streams or not isinstance(self._proposer, ReadsAhead):
            return 0
        before = self.unread(stream, len(context))
        try:
            self._proposer.read(stream, context, most)
        except Exception as error:
            self._failed("read", error)
            self.close(stream)
            return 0
        return max(0, before - self.unread(stream, len(context)))

    def propose(self, requests: Sequence[DraftRequest]) -> list[tuple[int, ...]]:
        """One valid draft a request, in order; an empty one proposes nothing."""
        try:
            answers = self._proposer.propose(requests)
            if len(answers) != len(requests):
                raise ValueError(f"{len(answers)} answers to {len(requests)} requests")
            return [self._checked(draft, request) for draft, request in zip(answers, requests, strict=True)]
        except Exception as error:
            self._failed("propose", error)
            for request in requests:
                self.close(request.stream)
            return [()] * len(requests)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Say what became of its drafts."""
        try:
            self._proposer.observe(outcomes)
        except Exception as error:
            self._failed("observe", error)
            for outcome in outcomes:
                self.close(outcome.stream)

    def close(self, stream: int) -> None:
        """The stream ended, or drafts no more from here."""
        if stream not in self._streams:
            return
        self._streams.discard(stream)
        try:
            self._proposer.close(stream)
        except Exception as error:
            self._failed("close", error)

    def _checked(self, draft: Draft | None, request: DraftRequest) -> tuple[int, ...]:
        if draft is None:
            return ()
        tokens = tuple(operator.index(token) for token in draft.tokens)
        wrong = [token for token in tokens if not 0 <= token < self._vocab]
        if wrong or len(tokens) > request.most:
            what = f"id {wrong[0]} of {self._vocab}" if wrong else f"{len(tokens)} tokens of at most {request.most}"
            if self._first(f"a draft was dropped: {what}"):
                _log.warning("proposer %r: a draft was dropped: %s", self.name, what)
            return ()
        return tokens

    def _failed(self, method: str, error: Exception) -> None:
        said = "".join(traceback.format_exception_only(error)).rstrip()
        if self._first(f"{method}: {said}"):
            log_fault(_log, f"proposer {self.name!r} failed in {method}; its streams go on without its drafts", error)

    def _first(self, what: str) -> bool:
        """Count a failure; whether it is the first. Of later ones the 2nd, 4th, 8th and so on are a line of the log."""
        count = self.failures.count + 1
        self.failures = Failures(count, one_line(what))
        if count > 1 and count.bit_count() == 1:
            _log.warning("proposer %r failed %d times so far, the last time: %s", self.name, count, self.failures.last)
        return count == 1

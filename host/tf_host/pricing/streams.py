"""What pricing remembers of the streams: how their drafts fared and how long replies are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tf_host.pricing.acceptance import HOPE, RECENT, Acceptance
from tf_host.pricing.aside import Aside, Stood
from tf_host.pricing.calibration import Calibration
from tf_host.pricing.leaves import Alternatives

__all__ = ["Drafts", "Streams"]

_REPLY = 128.0
_REPLY_DECAY = 0.1


@dataclass(slots=True)
class Drafts:
    """One proposer in one stream: its acceptance, its standing aside, and the rounds that it drafted."""

    acceptance: Acceptance
    aside: Aside
    rounds: int = 0


@dataclass(slots=True)
class _Stream:
    sampled: bool
    replied: int = 0
    drafts: dict[int, Drafts] = field(default_factory=dict)


class Streams:
    """The open streams, and what a new one starts from.

    A stream's acceptance of a proposer starts from that of the recent streams, greedy and sampled ones apart, and a new
    kind from the other kind's.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Stream] = {}
        self._recent: dict[tuple[int, bool], Acceptance] = {}
        self._alternatives = defaultdict[tuple[int, bool], Alternatives](Alternatives)
        self._calibrations = defaultdict[tuple[int, bool], Calibration](Calibration)
        self._stood = defaultdict[tuple[int, bool], Stood](Stood)
        self._reply = _REPLY

    def open(self, stream: int, sampled: bool) -> None:
        """A stream takes part in a round; only its first time counts."""
        if stream not in self._open:
            self._open[stream] = _Stream(sampled)

    def close(self, stream: int) -> None:
        """A stream ended."""
        closed = self._open.pop(stream, None)
        if closed is not None and closed.replied:
            self._reply += _REPLY_DECAY * (closed.replied - self._reply)

    def drafts(self, stream: int, proposer: int) -> Drafts:
        """A proposer in a stream."""
        drafts, sampled = self._open[stream].drafts, self._open[stream].sampled
        if proposer not in drafts:
            aside = Aside(self._stood[proposer, sampled])
            drafts[proposer] = Drafts(Acceptance(self._start(proposer, sampled), hope=HOPE), aside)
        return drafts[proposer]

    def alternatives(self, stream: int, proposer: int) -> Alternatives:
        """What is known of a proposer's alternatives in streams that are greedy, or sampled, as this one is."""
        return self._alternatives[proposer, self._open[stream].sampled]

    def calibration(self, stream: int, proposer: int) -> Calibration:
        """What is known of a proposer's probabilities in streams that are greedy, or sampled, as this one is."""
        return self._calibrations[proposer, self._open[stream].sampled]

    def drafting(self, stream: int, proposer: int) -> bool:
        """Whether the proposer was ever weighed for the stream."""
        return proposer in self._open[stream].drafts

    def asked(self, stream: int, proposer: int, answered: bool) -> None:
        """The proposer was asked for drafts."""
        for acceptance in self._both(stream, proposer):
            acceptance.asked(answered)

    def judged(self, stream: int, proposer: int, kept: int, *, missed: bool) -> None:
        """So many drafts stood, and the one after them maybe did not."""
        for acceptance in self._both(stream, proposer):
            acceptance.judge(kept, missed=missed)

    def replied(self, stream: int, tokens: int) -> None:
        """The stream's reply has that many tokens by now."""
        if stream in self._open:
            self._open[stream].replied = tokens

    def left(self, written: int, limit: int) -> float:
        """Reply tokens that are likely still to come after ``written``, at least 1.

        A limit says little about a reply that stops by itself: what is left is the mean length of recent replies less
        what was written, at least half of that mean, and at most the limit.
        """
        return max(1.0, min(float(limit), max(self._reply - written, self._reply / 2)))

    def _both(self, stream: int, proposer: int) -> tuple[Acceptance, ...]:
        """The stream's own acceptance and the recent streams'."""
        if stream not in self._open:
            return ()
        return self.drafts(stream, proposer).acceptance, self._start(proposer, self._open[stream].sampled)

    def _start(self, proposer: int, sampled: bool) -> Acceptance:
        recent = self._recent
        if (proposer, sampled) not in recent:
            recent[proposer, sampled] = Acceptance(recent.get((proposer, not sampled)), quick=RECENT, steady=RECENT)
        return recent[proposer, sampled]

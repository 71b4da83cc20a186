"""The drafts of a round."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from tf_host.lanes.depths import FORCED, MOST_DRAFTS, READING, Cut, Depths, DraftSample, Offer, StreamView
from tf_host.lanes.faults import log_fault
from tf_host.lanes.sources import Source
from tf_host.lanes.stream import Stream
from tf_plugins.rows import RowPlan
from tf_plugins.tokens import Tokens
from tf_plugins.types import Draft, DraftRequest, Leaf

log = logging.getLogger(__name__)

GRAMMAR = "grammar"
"""Names the drafts that a grammar forces."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft to verify, what may stand in its places, what its proposer says of the chances of either, and whose it is
    (``proposer`` is an index, or ``FORCED``); with ``offered``, what it was before it was cut."""

    proposer: int
    source: str
    tokens: tuple[int, ...]
    alternatives: tuple[tuple[int, ...], ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()
    offered: Proposal | None = None

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The alternatives, one place after another."""
        return tuple(Leaf(place, token) for place, tokens in enumerate(self.alternatives) for token in tokens)

    def offer(self, stream: int) -> Offer:
        """As depths see it."""
        return Offer(stream, self.proposer, len(self.tokens), tuple(map(len, self.alternatives)), self.probabilities)

    def cut(self, cut: Cut | None, most: int) -> Proposal:
        """What of it is verified: at most ``most`` rows, of alternatives the first places' first."""
        if cut is None:
            return replace(self, alternatives=(), offered=self)
        tokens = self.tokens[: max(0, cut.tokens)]
        room, alternatives = most - len(tokens), []
        for found, count in zip(self.alternatives[: len(tokens)], cut.beside, strict=False):
            alternatives.append(found[: min(count, room)])
            room -= len(alternatives[-1])
        return replace(self, tokens=tokens, alternatives=tuple(alternatives), offered=self)


class Drafting:
    """Asks the proposers, in order, for the streams that still lack a draft.

    Args:
        sources: the proposers, in order.
        depths: how many drafts to ask for.
        plan: cuts windows.
        alternatives: how many are asked for in each draft's place.
    """

    def __init__(self, sources: Sequence[Source], depths: Depths, plan: RowPlan, alternatives: int = 0) -> None:
        self._alternatives = alternatives
        self._sources = sources
        self._depths = depths
        self._plan = plan
        self._dear = False
        self._found = False

    def propose(self, streams: Sequence[Stream]) -> Mapping[int, Proposal]:
        """The draft of each stream that has one, with nothing in it where none pays."""
        self._dear = False
        views = {stream.number: self.view(stream) for stream in streams}
        most = self._depths.plan(list(views.values()))
        found = {stream.number: forced for stream in streams if (forced := _forced(stream, views[stream.number]))}
        for source in self._sources:
            self._ask(source, [stream for stream in streams if stream.number not in found], views, most, found)
        self._found = bool(found)
        for stream in streams:
            _cut_by_grammar(stream, found)
        sent = self._depths.trim([proposal.offer(number) for number, proposal in found.items()])
        return {number: proposal.cut(sent.get(number), views[number].most) for number, proposal in found.items()}

    def silent(self, streams: Sequence[Stream], *, asked: bool) -> bool:
        """Whether none of the streams would have a draft, so that plain rounds may follow.

        Proposers that cost nothing to ask are asked; any other that would be is taken to have one.

        Args:
            streams: who would have them.
            asked: whether ``propose`` was, for these streams and tokens, and none is verified.
        """
        if asked:
            return not (self._dear or self._found)
        views = {stream.number: self.view(stream) for stream in streams}
        most = self._depths.plan(list(views.values()))
        for source in self._sources:
            requests = self._requests(source, streams, views, most)
            if not requests:
                continue
            if not self._depths.free(source.index):
                return False
            started = time.perf_counter()
            drafts = source.propose(requests, reading=_reading(source, requests, views))
            if any(draft.tokens for draft in drafts):
                return False
            self._record(source, requests, drafts, views, time.perf_counter() - started)
        return True

    def _requests(
        self, source: Source, streams: Sequence[Stream], views: Mapping[int, StreamView], most: Mapping[int, int]
    ) -> list[DraftRequest]:
        """What the source is asked, for the streams that it is asked about."""
        requests = []
        for stream in streams:
            view = views[stream.number]
            limit = min(view.most, most.get(stream.number, 0))
            if limit > 0 and source.serves(stream.number):
                limit = min(limit, self._depths.choose(view, source.index))
                if limit > 0:
                    least = self._depths.least(view, source.index)
                    requests.append(_request(stream, limit, self._alternatives, least))
        return requests

    def _ask(
        self,
        source: Source,
        streams: Sequence[Stream],
        views: Mapping[int, StreamView],
        most: Mapping[int, int],
        found: dict[int, Proposal],
    ) -> None:
        requests = self._requests(source, streams, views, most)
        if not requests:
            return
        self._dear |= not self._depths.free(source.index)
        started = time.perf_counter()
        drafts = source.propose(requests, reading=_reading(source, requests, views))
        seconds = time.perf_counter() - started
        for request, draft in zip(requests, drafts, strict=True):
            if draft.tokens:
                given = draft.tokens, draft.alternatives, draft.probabilities
                found[request.stream] = Proposal(source.index, source.name, *given)
        self._record(source, requests, drafts, views, seconds)

    def _record(
        self,
        source: Source,
        requests: Sequence[DraftRequest],
        drafts: Sequence[Draft],
        views: Mapping[int, StreamView],
        seconds: float,
    ) -> None:
        self._depths.record_draft(
            DraftSample(
                proposer=source.index,
                offers=tuple(_offer(source, r, d) for r, d in zip(requests, drafts, strict=True)),
                unread=sum(views[request.stream].unread[source.index] for request in requests),
                seconds=seconds,
            )
        )

    def view(self, stream: Stream) -> StreamView:
        """A stream as depths see it."""
        length = len(stream.tokens)
        # One reply token comes from the pending row itself. Prompt and reply fit the context (checked when submitted).
        most = min(self._plan.room(length - 1) - 1, self._plan.top - 1, stream.left - 1, MOST_DRAFTS)
        return StreamView(
            id=stream.number,
            context=length,
            prompt=len(stream.request.prompt),
            left=stream.left,
            most=most if stream.request.draft else 0,
            temperature=stream.request.sampling.temperature,
            unread=tuple(source.unread(stream.number, length) for source in self._sources),
        )


def _reading(source: Source, requests: Sequence[DraftRequest], views: Mapping[int, StreamView]) -> bool:
    """Whether the source has a context to read in this call."""
    return any(views[request.stream].unread[source.index] > READING for request in requests)


def _offer(source: Source, request: DraftRequest, draft: Draft) -> Offer:
    """What an answer cost is told by its length."""
    ended = 0 < len(draft.tokens) < request.most and draft.tokens[-1] in request.end_ids
    return Offer(request.stream, source.index, len(draft.tokens), probabilities=draft.probabilities, ended=ended)


def _request(stream: Stream, most: int, alternatives: int, least: float) -> DraftRequest:
    sampling = stream.request.sampling
    return DraftRequest(
        stream=stream.number,
        context=Tokens(stream.tokens),
        most=most,
        seed=sampling.seed,
        temperature=sampling.temperature,
        position=len(stream.tokens),
        end_ids=stream.request.end_ids,
        alternatives=alternatives,
        least=least,
    )


def _forced(stream: Stream, view: StreamView) -> Proposal | None:
    """Tokens that the grammar leaves no choice about."""
    grammar = stream.decoding.grammar
    if grammar is None or view.most == 0:
        return None
    try:
        tokens = tuple(grammar.forced())[: view.most]
    except Exception as error:
        _grammar_failed(stream, error)
        return None
    return Proposal(FORCED, GRAMMAR, tokens) if tokens else None


def _cut_by_grammar(stream: Stream, found: dict[int, Proposal]) -> None:
    """Drop what the grammar would reject: it can never land."""
    grammar, proposal = stream.decoding.grammar, found.get(stream.number)
    if grammar is None or proposal is None:
        return
    tokens = proposal.tokens
    try:
        allowed = grammar.allowed_prefix(tokens)
        stand = [
            [n for n, other in enumerate(place) if grammar.allowed_prefix((*tokens[:at], other)) > at]
            for at, place in enumerate(proposal.alternatives[:allowed])
        ]
    except Exception as error:
        _grammar_failed(stream, error)
        allowed, stand = 0, []
    found[stream.number] = replace(
        proposal,
        tokens=tokens[:allowed],
        alternatives=tuple(
            tuple(place[n] for n in some) for place, some in zip(proposal.alternatives, stand, strict=False)
        ),
        probabilities=tuple(
            (known[0], *(known[1 + n] for n in some))
            for known, some in zip_longest(proposal.probabilities[:allowed], stand, fillvalue=())
            if known
        ),
    )


def _grammar_failed(stream: Stream, error: Exception) -> None:
    """A plain reply is never looked ahead in: what fails there costs the draft and not the reply."""
    log_fault(log, f"request {stream.request.id}: its grammar failed on a draft, which is dropped", error)

"""A round: plan the windows, run their forwards, conclude what stands."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from tf_host.lanes.ahead import Ahead, Queued
from tf_host.lanes.depths import Depths, RoundSample
from tf_host.lanes.drafting import Drafting
from tf_host.lanes.packing import pack
from tf_host.lanes.sources import Source
from tf_host.lanes.stream import Stream
from tf_host.lanes.windows import Landed, StreamWindow, land, masks, outcome
from tf_host.sampling import WindowDraws
from tf_plugins.rows import RowPlan
from tf_plugins.types import Model, RoundDone, TakesLeaves, Window
from tf_plugins.types import Outcome as Judged


@dataclass(slots=True)
class Round:
    """One round: its windows, grouped into forwards, and when each part of it began.

    Attributes:
        forwards: the windows of each forward.
        started: when it was planned, by ``time.perf_counter``.
        spent: what proposers' calls had taken by then, since the start.
        read_back: when its draws were read.
        queued: its draws where it was sent while the round before ran.
        kept: whether the caches stand past its rows already, for the round that follows it.
        seconds: what it took; ``None`` where that says nothing, since another was queued behind it or ran beside it.
    """

    forwards: list[list[StreamWindow]]
    started: float
    spent: float = 0.0
    read_back: float = 0.0
    queued: Queued | None = None
    kept: bool = False
    seconds: float | None = None

    @property
    def windows(self) -> list[StreamWindow]:
        return [window for forward in self.forwards for window in forward]


class Rounds:
    """Makes rounds of whatever streams decode.

    Args:
        model: the target.
        plan: the row plan.
        drafting: drafts for the streams.
        sources: the proposers, in order.
        depths: how deep to draft; told what every round measured.
    """

    def __init__(
        self, model: Model, plan: RowPlan, drafting: Drafting, sources: Sequence[Source], depths: Depths
    ) -> None:
        self._model = model
        self._plan = plan
        self._sources = sources
        self._depths = depths
        self._drafting = drafting
        self._ahead = Ahead(model, drafting)
        # Of the last round: its end, what proposers' calls had taken by then, and its streams.
        self._read_back = self._spent = 0.0
        self._before = frozenset[int]()

    def plan(self, streams: Sequence[Stream]) -> Round:
        """Draft for the streams and pack their windows into forwards of at most the band's top.

        Raises ``StreamFault`` when one stream's grammar fails; nothing has run then.
        """
        started, spent = time.perf_counter(), self._proposing()
        if queued := self._ahead.take(streams):
            return Round([[StreamWindow(stream, None) for stream in queued.streams]], started, spent, queued=queued)
        proposals = self._drafting.propose(streams)
        windows = [StreamWindow.of(stream, proposals.get(stream.number)) for stream in streams]
        for window in windows:
            window.masks = masks(window)
        forwards = pack([window.rows for window in windows], self._plan.top)
        return Round([[windows[index] for index in forward] for forward in forwards], started, spent)

    def run(
        self, round: Round, *, whole: bool = True, calm: bool = True, meanwhile: Callable[[], None] | None = None
    ) -> list[WindowDraws]:
        """Run the forwards and every row's draw, read back once; one ``WindowDraws`` a window, in order.

        Args:
            round: what was planned.
            whole: whether no other stream waits for a round; the next one may then be queued behind this.
            calm: whether nothing was done since the round before but this.
            meanwhile: what to do while it runs.
        """
        drawn = self._sent(round) if round.queued is None else round.queued.draws
        arrays = [array for draws in drawn for array in draws.arrays()]
        plain = all(window.proposal is None for window in round.windows)
        streams = [window.stream for window in round.windows]
        if round.queued is None:
            # Sent by itself: what is sent together is ready together, and this would wait for what is queued behind it.
            mx.async_eval(arrays)  # type: ignore[no-untyped-call]
        if whole and len(round.forwards) == 1 and plain:
            round.kept = self._ahead.queue(streams, drawn, asked=round.queued is None)
        if meanwhile is not None:
            meanwhile()
        mx.eval(arrays)
        round.read_back = time.perf_counter()
        now = frozenset(stream.number for stream in streams)
        round.seconds = self._seconds(round, whole=whole, follows=calm and now == self._before)
        self._read_back, self._spent, self._before = round.read_back, self._proposing(), now
        return drawn

    def _seconds(self, round: Round, *, whole: bool, follows: bool) -> float | None:
        """What the round took, proposers' calls left out.

        Where it ``follows`` the one before, counted from the end of that, with what the host did since: rounds that are
        queued behind another hide it, and drafted ones must be worth it.
        """
        if round.queued is not None:
            return round.read_back - self._read_back if whole and follows and round.queued.whole else None
        if round.kept:
            return None
        began, spent = (self._read_back, self._spent) if follows else (round.started, round.spent)
        return round.read_back - began - (self._proposing() - spent)

    def _proposing(self) -> float:
        return sum(source.seconds for source in self._sources)

    def stop(self) -> None:
        """Wait for whatever runs, after a round that failed half way: its streams' caches are about to be freed."""
        self._before = frozenset()
        with contextlib.suppress(Exception):
            mx.synchronize()

    def settle(self, stream: Stream) -> None:
        """Wait for whatever still writes a stream's cache; it is about to be freed."""
        self._ahead.settle(stream)

    def _sent(self, round: Round) -> list[WindowDraws]:
        drawn: list[WindowDraws] = []
        for forward in round.forwards:
            logits = self._model.verify(
                [Window(w.stream.decoding.cache, (w.stream.tokens[-1], *w.drafts), w.leaves) for w in forward]
            )
            row = 0
            for window in forward:
                rows = logits[row : row + window.rows]
                stream = window.stream
                sampler = stream.decoding.sampler
                drawn.append(sampler.window(rows, len(stream.tokens), window.drafts, window.masks, window.leaves))
                row += window.rows
        if len(drawn) > 1 and any(window.proposal is not None for window in round.windows):
            WindowDraws.together(drawn)
        return drawn

    def conclude(self, round: Round, drawn: Sequence[WindowDraws]) -> list[Landed]:
        """Keep of every window what the target's own draws agree with, and say what was measured."""
        landed = [land(window, draws) for window, draws in zip(round.windows, drawn, strict=True)]
        for each in landed if not round.kept else ():
            self._keep(each)
        self._tell(round, landed)
        return landed

    def _keep(self, landed: Landed) -> None:
        """The pending token and what stood; the last token drawn is the next pending one."""
        window, rows = landed.window, len(landed.tokens)
        cache = window.stream.decoding.cache
        # A leaf that is the last token to land is pending itself, and no row of the cache yet.
        leaf = landed.leaf if landed.leaf is not None and rows > 1 + window.leaves[landed.leaf].place else None
        if leaf is not None and isinstance(self._model, TakesLeaves):
            self._model.keep_leaf(cache, rows, 1 + len(window.drafts) + leaf)
        else:
            self._model.keep(cache, rows)

    def done(self, round: Round, landed: Sequence[Landed]) -> RoundDone:
        """What observers are told of a concluded round."""
        drafted, kept = Counter[str](), Counter[str]()
        for each in landed:
            if each.window.proposal is not None:
                drafted[each.window.proposal.source] += each.window.proposed
                kept[each.window.proposal.source] += each.kept
        return RoundDone(
            streams=len(landed),
            rows=sum(window.rows for window in round.windows),
            padded=sum(self._padded(round)),
            seconds=round.read_back - round.started,
            drafted=dict(drafted),
            kept=dict(kept),
        )

    def _tell(self, round: Round, landed: Sequence[Landed]) -> None:
        outcomes = [outcome(each) for each in landed]
        self._depths.record_round(
            RoundSample(
                rows=sum(window.rows for window in round.windows),
                padded=self._padded(round),
                seconds=round.seconds,
                outcomes=tuple(outcomes),
                queued=round.queued is not None,
            )
        )
        for source in self._sources:
            judged = [
                Judged(told.stream, each.window.proposed, each.kept)
                for each, told in zip(landed, outcomes, strict=True)
                if told.proposer == source.index and each.window.proposed
            ]
            if judged:
                source.observe(judged)

    def _padded(self, round: Round) -> tuple[int, ...]:
        return tuple(self._plan.padded(sum(window.rows for window in forward)) for forward in round.forwards)

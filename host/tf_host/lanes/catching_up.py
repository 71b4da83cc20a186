"""Proposers catch up with a prompt before its stream joins the rounds."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tf_host.lanes.depths import READING, Depths
from tf_host.lanes.drafting import Drafting
from tf_host.lanes.sources import Source
from tf_host.lanes.stream import Stream
from tf_plugins.tokens import Tokens

__all__ = ["CatchingUp"]


class CatchingUp:
    """Lets proposers read beside the target, a piece a turn, so that no round waits while a long prompt is read.

    Only those read that are expected to be asked. Others read in the round that first asks them, if one does.

    Args:
        sources: the proposers, in order.
        drafting: knows what depths are told of a stream.
        depths: whom they would ask.
        piece: tokens of a turn.
    """

    def __init__(self, sources: Sequence[Source], drafting: Drafting, depths: Depths, piece: int) -> None:
        self._sources = sources
        self._drafting = drafting
        self._depths = depths
        self._piece = piece

    def begin(self, stream: Stream, beside: Sequence[Stream]) -> None:
        """Decide who reads the prompt of a stream that was just admitted; ``beside`` decode by now."""
        view = self._drafting.view(stream)
        behind = [s for s in self._sources if s.reads_ahead and view.most and view.unread[s.index] > READING]
        if behind:
            views = [*map(self._drafting.view, beside), view]
            stream.decoding.behind = [source for source in behind if self._depths.asks(views, source.index)]

    def turn(self, stream: Stream) -> None:
        """Each that is behind reads a piece."""
        live, context = stream.decoding, Tokens(stream.tokens)
        live.behind = [source for source in live.behind if self._reads_on(source, stream.number, context)]

    def _reads_on(self, source: Source, stream: int, context: Sequence[int]) -> bool:
        """Read a piece; whether there is more."""
        started = time.perf_counter()
        if read := source.read(stream, context, self._piece):
            self._depths.record_read(source.index, read, time.perf_counter() - started)
        return read > 0 and source.unread(stream, len(context)) > READING

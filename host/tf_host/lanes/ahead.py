"""The next plain round, sent to the device before the last one's tokens are read.

The device then goes on while the host reads, delivers and plans: a millisecond of 19 on an H200 with a 33B, one of 6
with an 8B. Only rounds whose next draw needs no token on the host are queued, only while nobody has a draft, and only
by models whose caches stay in place (``Model.chains``). A draft found while a plain round is queued waits for that
round. What is computed is the same, so replies are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from tf_host.lanes.drafting import Drafting
from tf_host.lanes.stream import Stream
from tf_host.sampling import WindowDraws
from tf_plugins.types import Model, Window

__all__ = ["Ahead", "Queued"]


@dataclass(slots=True)
class Queued:
    """A plain round that is under way.

    Attributes:
        streams: whose it is.
        draws: theirs, in that order.
        whole: whether it was sent for these streams alone.
    """

    streams: list[Stream]
    draws: list[WindowDraws]
    whole: bool = True

    def of(self, streams: Sequence[Stream]) -> Queued:
        """The part of it that belongs to streams that still decode."""
        alive = [at for at, stream in enumerate(self.streams) if stream in streams]
        whole = len(alive) == len(self.streams)
        return Queued([self.streams[at] for at in alive], [self.draws[at] for at in alive], whole)


class Ahead:
    """Queues one round.

    Args:
        model: the target.
        drafting: says whether any of the streams would have a draft.
    """

    def __init__(self, model: Model, drafting: Drafting) -> None:
        self._model = model
        self._drafting = drafting
        self._queued: Queued | None = None

    def take(self, streams: Sequence[Stream]) -> Queued | None:
        """The queued round of these streams, if there is one; streams that are not in it wait for the next."""
        queued, self._queued = self._queued, None
        if queued is None:
            return None
        queued = queued.of(streams)
        return queued if queued.streams else None

    def queue(self, streams: Sequence[Stream], draws: Sequence[WindowDraws], *, asked: bool) -> bool:
        """Send the round that follows a plain one of ``streams``, whose draws are not read yet.

        Args:
            streams: all that decode.
            draws: of the round that runs.
            asked: whether that one is plain because proposers were asked and had nothing.

        Returns:
            Whether it was sent; the caches then stand past the rows of the round before.
        """
        if not self._model.chains or not all(map(_may_follow, streams)):
            return False
        tokens = [draw.next_token() for draw in draws]
        if any(token is None for token in tokens) or not self._drafting.silent(streams, asked=asked):
            return False
        windows = []
        for stream, token in zip(streams, tokens, strict=True):
            self._model.keep(stream.decoding.cache, 1)
            windows.append(Window(stream.decoding.cache, token))
        logits = self._model.verify(windows)
        following = [
            stream.decoding.sampler.window(logits[row : row + 1], len(stream.tokens) + 1)
            for row, stream in enumerate(streams)
        ]
        mx.async_eval([array for draw in following for array in draw.arrays()])  # type: ignore[no-untyped-call]
        self._queued = Queued(list(streams), following)
        return True

    def settle(self, stream: Stream) -> None:
        """Before a stream's cache is freed: wait for a queued round that writes it."""
        if self._queued is not None and stream in self._queued.streams:
            try:
                mx.eval([array for draw in self._queued.draws for array in draw.arrays()])
            except Exception:  # whoever reads the round is told
                return


def _may_follow(stream: Stream) -> bool:
    return stream.left > 1 and stream.decoding.grammar is None and stream.decoding.sampler.reads_nothing

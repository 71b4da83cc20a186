"""Checks of the bytes that a proposer takes, keeps and gives back."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tf_plugins.testing.opened import ROOM, Opened, request
from tf_plugins.testing.proposing import Proposing
from tf_plugins.tokens import Tokens
from tf_plugins.types import Proposer

_LEAK_STREAMS = 40
"""Streams in each of the two halves of the leak check."""

_LEAK_BYTES = 512
"""Bytes a stream that an allocator may keep of its own accord."""


class MemoryChecks(Proposing):
    """Does a proposer say what it takes, and give it back?"""

    def held(self) -> int:
        """Bytes held now; override it for a proposer that holds memory outside Python."""
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    def test_growth_is_arithmetic(self) -> None:
        """What opening takes: the same at every call, more for more tokens, and known without a context."""
        with self.opened() as opened:
            for context in (Tokens(tuple(context)) for context in ((), *self.contexts)):
                most = [len(context) + more for more in (1, ROOM // 2, ROOM)]
                sizes = [opened.proposer.growth(context, tokens) for tokens in most]
                assert sizes == [opened.proposer.growth(context, tokens) for tokens in most]
                for nbytes in (nbytes for size in sizes for nbytes in (size.new, size.reused, size.copy)):
                    assert type(nbytes) is int, f"{nbytes!r} is a {type(nbytes).__name__}, not an int"
                    assert nbytes >= 0, f"{nbytes} bytes are less than none"
                assert [size.new for size in sizes] == sorted(size.new for size in sizes)

    def test_kept_bytes_can_be_shed(self) -> None:
        """What is kept of streams that ended is counted, and given back when it is asked for."""
        with self.opened() as opened:
            for context in self.contexts:
                stream = opened.stream(context)
                opened.ask(request(stream, context))
                opened.close(stream)
            kept = opened.proposer.kept()
            assert type(kept) is int, f"{kept!r} is a {type(kept).__name__}, not an int"
            assert kept >= 0
            assert opened.proposer.shed(kept) == 0, "bytes were shed although there was room for them"
            assert opened.proposer.shed(0) == kept, "shed does not return the bytes that it freed"
            assert opened.proposer.kept() == 0

    def test_ended_streams_leave_nothing_behind(self) -> None:
        """After many streams, with everything shed, no more is held than after a few."""
        context = self._long()
        with self._tracing(), self.opened() as opened:
            self._come_and_go(opened, context)
            before = self.held()
            self._come_and_go(opened, context)
            left = self.held() - before
        assert left <= _LEAK_BYTES * _LEAK_STREAMS, f"{left} bytes are left of {_LEAK_STREAMS} streams that ended"

    def test_kept_bytes_are_counted(self) -> None:
        """One that says that it keeps nothing of streams that ended keeps nothing: no ``shed`` is needed first."""
        context = self._long()
        with self._tracing(), self.opened() as opened:
            self._come_and_go(opened, context, shed=False)
            before, kept = self.held(), opened.proposer.kept()
            self._come_and_go(opened, context, shed=False)
            left, kept = self.held() - before, max(kept, opened.proposer.kept())
        if not kept:
            assert left <= _LEAK_BYTES * _LEAK_STREAMS, f"{left} bytes are kept, and ``kept`` says none"

    def test_release_gives_everything_back(self) -> None:
        """A released proposer holds nothing, although streams were open and it is itself still about."""

        def released() -> Proposer:
            proposer = self.make_proposer()
            opened = Opened(proposer)
            for long in [self._fitting([*context] * 8) for context in self.contexts]:
                for _ in range(8):
                    opened.draft(long)
            proposer.release()
            return proposer

        with self._tracing():
            released()
            before = self.held()
            still = released()  # were it gone, so would be what it holds
            left = self.held() - before
        del still
        assert left <= 8 * _LEAK_BYTES * len(self.contexts), f"{left} bytes are left of a released proposer"

    def _come_and_go(self, opened: Opened, context: Sequence[int], *, shed: bool = True) -> None:
        for number in range(_LEAK_STREAMS):
            own = [*context[number % 7 :]]
            stream = opened.stream(own)
            opened.ask(request(stream, own))
            opened.close(stream)
        if shed:
            opened.proposer.shed(0)

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        tracing = tracemalloc.is_tracing()
        if not tracing:
            tracemalloc.start()
        try:
            yield
        finally:
            if not tracing:
                tracemalloc.stop()

"""A fence around a proposer: whatever it raises or answers costs drafts or kept bytes, never a request."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from tf_host.lanes import answers
from tf_host.lanes.faults import Failures, log_fault, one_line
from tf_plugins.types import Costs, Growth, Proposer, ReadsAhead

_log = logging.getLogger(__name__)

T = TypeVar("T")

SLOW_S = 1.0
"""Seconds past which a call that does not read a context is worth a line of the log."""

_OTHERWISE = {
    "close": "what it holds for a stream that ended may stay",
    "kept": "what it keeps is not counted",
    "shed": "what it does not free is not counted",
    "costs": "the host's own times price it",
    "release": "what it holds may stay until the process ends",
}
"""What becomes of a failure; elsewhere its streams lose their drafts."""


class Fence:
    """Stands for a proposer wherever the host asks it: in the lanes, in pricing, and as what admission sheds.

    A method that raises, ``SystemExit`` and the like included, or whose answer is of another kind, has failed. That is
    counted, and logged the first time for each method.

    Attributes:
        name, label: the proposer's.
        reads_ahead: whether it has ``read``.
        failures: how often it failed, and how the last time.
        seconds: what its calls took in all.
        whose: the plugin, in brackets, for the log; empty where it is not known.

    Args:
        proposer: the plugin's object.
        plugin: who gives it, for the log.
    """

    def __init__(self, proposer: Proposer, plugin: str = "") -> None:
        self.name, self.label = proposer.name, proposer.label
        self.reads_ahead = isinstance(proposer, ReadsAhead)
        self.failures = Failures()
        self.seconds = 0.0
        self._proposer = proposer
        self.whose = f" ({plugin})" if plugin else ""
        self._told: set[str] = set()
        self._slow = False
        self._longest: int | None = None
        self._stuck = 0

    @classmethod
    def around(cls, proposer: Proposer | Self) -> Fence:
        """The fence of a proposer; one that is a fence already is its own."""
        return proposer if isinstance(proposer, Fence) else cls(proposer)

    def ask(self, method: str, *given: Any, check: Callable[[Any], T], reading: bool = False) -> T | None:
        """The answer of a method once ``check`` took it, or ``None`` where either failed.

        Args:
            method: its name.
            given: its arguments.
            check: turns an answer into what is used, and raises for one of another kind.
            reading: whether it has a context to read, which takes the time that it takes.
        """
        started = time.perf_counter()
        try:
            return check(getattr(self._proposer, method)(*given))
        except BaseException as error:  # no signal is handled on this thread: a plugin raised it
            said = "".join(traceback.format_exception_only(error)).rstrip()
            if self.failed(method, f"{method}: {said}"):
                otherwise = _OTHERWISE.get(method, "its streams go on without its drafts")
                log_fault(_log, f"proposer {self.name!r} failed in {method}; {otherwise}{self.whose}", error)
            return None
        finally:
            seconds = time.perf_counter() - started
            self.seconds += seconds
            if not reading:
                self._timed(method, seconds)

    def failed(self, method: str, what: str) -> bool:
        """Count a failure; whether it is the method's first. Of later ones the 2nd, 4th, 8th and so on are a line."""
        count = self.failures.count + 1
        self.failures = Failures(count, one_line(what))
        if method not in self._told:
            self._told.add(method)
            return True
        if count.bit_count() == 1:
            _log.warning("proposer %r failed %d times so far, the last time: %s", self.name, count, self.failures.last)
        return False

    def begin(self, context: int, room: int) -> None:
        """At start-up, learn what a stream of ``context`` tokens takes; what fails in that is raised."""
        self._longest = answers.growth(self._proposer.growth((), context), room).new

    def fresh(self, tokens: int) -> int:
        """Bytes of a new state, by arithmetic; a stream is never refused for more than the start made room for."""
        growth = self.growth((), tokens)
        nbytes = 0 if growth is None else growth.new
        return nbytes if self._longest is None else min(nbytes, self._longest)

    def growth(self, context: Sequence[int], tokens: int, room: int | None = None) -> Growth | None:
        """Bytes that opening takes, at most ``room`` of them new; ``None`` where it is not to be opened."""

        def check(answer: Any) -> Growth:
            growth = answers.growth(answer, room)
            # The copy is one of a kept cache: with everything shed there is none to wait for room.
            if growth.copy and growth.copy > (kept := self.kept()):
                raise ValueError(f"{growth.copy} bytes to copy, and it keeps {kept}")
            return growth

        return self.ask("growth", context, tokens, check=check)

    def kept(self) -> int:
        """Bytes kept for streams that ended, those left out that it was to free and did not."""
        nbytes = self.ask("kept", check=answers.whole) or 0
        self._stuck = min(self._stuck, nbytes)
        return nbytes - self._stuck

    def shed(self, room: int) -> int:
        """Have it keep at most ``room`` bytes; returns those freed, or not counted from here on.

        A stream that waited for bytes that never come would wait for ever.
        """
        before = self.kept()
        answered = self.ask("shed", room, check=answers.whole)
        if (over := self.kept() - room) > 0:
            self._stuck += over
            if answered is not None and self.failed("shed", f"shed: {over} bytes more are kept than there is room for"):
                what = f"{over} bytes more are kept than there is room for; {_OTHERWISE['shed']}"
                _log.error("proposer %r failed in shed: %s%s", self.name, what, self.whose)
        return before - self.kept()

    def costs(self) -> Costs:
        """Its own measurements, or none."""
        return self.ask("costs", check=answers.costs) or Costs()

    def release(self) -> None:
        """Free everything."""
        self.ask("release", check=answers.done)

    def _timed(self, method: str, seconds: float) -> None:
        if seconds > SLOW_S and not self._slow:
            self._slow = True
            text = "proposer %r took %.1f s in %s, and every stream waits for it%s; later ones are not logged"
            _log.warning(text, self.name, seconds, method, self.whose)

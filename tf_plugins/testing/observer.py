"""Checks for plugins that observe rounds and streams."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from tf_plugins.testing.engine import Engine
from tf_plugins.testing.plugin import PluginChecks
from tf_plugins.types import RoundDone, StreamDone


class ObserverChecks(PluginChecks):
    """Does it take whatever it is told?"""

    def rounds(self) -> Iterator[RoundDone]:
        """Rounds of every kind: plain, drafted, with a source that nobody knows."""
        yield RoundDone(streams=1, rows=1, padded=1, seconds=0.0)
        yield RoundDone(2, 7, 8, 0.01, {"copy": 3, "grammar": 2}, {"copy": 3, "grammar": 0})
        yield RoundDone(1, 16, 16, 0.02, {"somebody": 15}, {"somebody": 0})

    def streams(self) -> Iterator[StreamDone]:
        """Streams that ended in every way, one before its first token."""
        yield StreamDone("r1", "cancelled", 5, 0, (), 0, 0.0)
        yield StreamDone("r2", "error", 5, 0, (1,), 1, 0.1, error="a round failed")
        for reason in ("stop", "length"):
            yield StreamDone("r3", reason, 9, 4, (1, 2, 3), 2, 0.2, {"copy": 2, "somebody": 1}, {"copy": 1})

    def test_it_takes_every_round_and_stream(self) -> None:
        """What it raises would be logged and lost, so it raises nothing."""
        hooks = self.hooks()
        for stream in self.streams():
            for round in self.rounds():
                hooks.ask("round_done", round=round)
            hooks.ask("stream_done", stream=stream)

    def test_what_it_is_told_is_not_changed(self) -> None:
        """Others are told the same."""
        hooks = self.hooks()
        for hook, name, events in (("round_done", "round", self.rounds()), ("stream_done", "stream", self.streams())):
            for event in events:
                before = copy.deepcopy(event)
                hooks.ask(hook, **{name: event})
                assert event == before, f"{hook} changed what it was told"

    def test_replies_are_the_plain_ones(self, tf_engine: Engine) -> None:
        """A reply is the same whoever watches."""
        with tf_engine() as server:
            plain = server.reply("abcabcabc")
        with tf_engine(self.plugin, settings=self.settings) as server:
            assert server.reply("abcabcabc").tokens == plain.tokens

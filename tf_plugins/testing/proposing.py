"""What every check of a proposer begins with: a proposer for a target, and contexts to draft for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from tf_plugins.testing.facts import CONTEXT, checkpoint, target_facts
from tf_plugins.testing.opened import ROOM, Opened, request
from tf_plugins.testing.plugin import PluginChecks
from tf_plugins.types import Proposer, TargetFacts

_CONTEXTS = tuple(
    tuple(text.encode())
    for text in (
        "the cat sat on the mat and the dog sat on the mat and the cat sat on",
        "a",
        "0123456789 0123456789 0123456789 01234",
        "def f(x):\n    return x\n\ndef f(y):\n    return y\n\ndef f(z):\n    ret",
        "No two of these words are the same",
    )
)


class Proposing(PluginChecks):
    """A plugin whose proposer is checked.

    Attributes:
        contexts: token ids to draft for, at least one of which it has drafts for.
        prompts: prompts for whole replies of the fake model.
        seconds: the longest that one call may take.
    """

    contexts: ClassVar[Sequence[Sequence[int]]] = _CONTEXTS
    prompts: ClassVar[Sequence[str]] = (
        "the cat sat on the mat and the dog sat on the mat and the",
        "one two three one two three one two",
        "z",
        "def f(x):\n    return x\n\ndef f(y):\n",
    )
    seconds: ClassVar[float] = 1.0

    def target(self) -> TargetFacts:
        """The target that its proposer is made for; override it for one that needs a model or the target's noise.

        Its ``context`` holds the longest of ``contexts`` and ``ROOM`` tokens more.
        """
        context = max([CONTEXT, *(len(context) + ROOM for context in self.contexts)])
        return target_facts(context=context, checkpoint=checkpoint(context=context))

    def make_proposer(self) -> Proposer:
        """A fresh proposer: the first that the plugin gives for ``target()``."""
        proposers: Sequence[Proposer] = self.hooks().ask("proposers", target=self.target())
        assert proposers, "the plugin gives no proposer for target()"
        return proposers[0]

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """A fresh proposer for one check, released at its end."""
        self._longest()
        opened = Opened(self.make_proposer())
        try:
            yield opened
        finally:
            opened.end()

    def test_a_call_is_short(self) -> None:
        """All streams of a round wait for it; a slow one fails here, before it slows the other checks."""
        with self.opened() as opened:
            context = self._long()
            streams = [opened.stream(context) for _ in range(4)]
            opened.ask(*(request(stream, context) for stream in streams))
            started = time.perf_counter()
            opened.ask(*(request(stream, context) for stream in streams))
            took = time.perf_counter() - started
        assert took <= self.seconds, f"a call for 4 streams took {took:.1f} s, and `seconds` is {self.seconds}"

    def _long(self) -> list[int]:
        """A context of all ``contexts``, four times."""
        return self._fitting([token for context in self.contexts for token in context] * 4)

    def _fitting(self, context: list[int]) -> list[int]:
        """As much of a context as a stream of ``target()`` has room for."""
        return context[: self._longest()]

    def _longest(self) -> int:
        """Tokens of the longest context that a stream of ``target()`` has room for; each of ``contexts`` has to fit."""
        room, longest = self.target().context, max(map(len, self.contexts), default=0)
        text = f"the longest of `contexts` has {longest} tokens, which with {ROOM} more do not fit target().context"
        assert longest + ROOM <= room, f"{text} of {room}"
        return room - ROOM

"""The proposers of a start, each behind its fence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tf_host.lanes.fence import Fence
from tf_host.plugins import Plugins
from tf_host.plugins.load import one_line
from tf_plugins.types import Proposer


def fenced(
    plugins: Plugins, proposers: Sequence[Proposer], owned: ExitStack, context: int, memory: int
) -> tuple[Fence, ...]:
    """The fences, in order; ``PluginError`` for a proposer that cannot say what the longest stream takes.

    Args:
        plugins: gave the proposers.
        proposers: in the order that they are asked.
        owned: releases them, the first one first.
        context: tokens of the longest stream.
        memory: bytes of the device's memory.
    """
    givers = [plugins.giver(proposer.name) for proposer in proposers]
    fences = tuple(
        Fence(proposer, f"plugin {giver.name!r}, {giver.distribution} {giver.version}")
        for proposer, giver in zip(proposers, givers, strict=True)
    )
    for fence in reversed(fences):
        owned.callback(fence.release)
    for fence, giver in zip(fences, givers, strict=True):
        try:
            fence.begin(context, memory)
        except BaseException as error:  # no signal is handled on this thread: the plugin raised it
            cause = f"proposer {fence.name!r}: {one_line(error)}"
            raise giver.failed("growth", cause, f"report it to the authors of {giver.distribution}") from error
    return fences

"""The proposers of a start, each behind its fence."""

from __future__ import annotations

from collections.abc import Sequence

from tf_host.lanes.fence import Fence
from tf_host.plugins import Plugins
from tf_host.plugins.load import one_line
from tf_plugins.types import Proposer


def fenced(plugins: Plugins, proposers: Sequence[Proposer], context: int, memory: int) -> tuple[Fence, ...]:
    """The fences, in order; ``PluginError`` for a proposer that cannot say what the longest stream takes.

    Args:
        plugins: gave the proposers.
        proposers: in the order that they are asked.
        context: tokens of the longest stream.
        memory: bytes of the device's memory.
    """
    fences = []
    for proposer in proposers:
        giver = plugins.giver(proposer.name)
        fence = Fence(proposer, f"plugin {giver.name!r}, {giver.distribution} {giver.version}")
        try:
            fence.begin(context, memory)
        except BaseException as error:  # no signal is handled on this thread: the plugin raised it
            cause = f"proposer {proposer.name!r}: {one_line(error)}"
            raise giver.failed("growth", cause, f"report it to the authors of {giver.distribution}") from error
        fences.append(fence)
    return tuple(fences)

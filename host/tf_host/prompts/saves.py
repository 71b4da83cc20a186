"""Which chunk starts of a prompt are worth a kept state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

GAP = 256
"""The state of the system prefix is kept where it is at least so many tokens before the others."""


def choose(starts: Sequence[int], boundaries: Sequence[int], last: int) -> tuple[int, ...]:
    """Positions to keep a state at, the most wanted first.

    The last chunk start serves the next turn; the last ones before each of the last two messages, of which one is the
    reply that begins and the other the last user message, serve an edit of that message; the last one in the system
    prefix serves a new conversation.

    Args:
        starts: the prompt's chunk starts, ascending.
        boundaries: message starts, ascending, the first message's own left out.
        last: the prompt's last position; a state never holds it.
    """
    usable = [start for start in starts if 0 < start <= last]

    def at_or_before(mark: int) -> list[int]:
        place = bisect_right(usable, mark)
        return usable[place - 1 : place] if place else []

    chosen = at_or_before(last)
    for boundary in reversed(boundaries[-2:]):
        chosen += at_or_before(boundary)
    for system in at_or_before(boundaries[0]) if boundaries else []:
        if all(position - system >= GAP for position in chosen):
            chosen.append(system)
    return tuple(dict.fromkeys(chosen))

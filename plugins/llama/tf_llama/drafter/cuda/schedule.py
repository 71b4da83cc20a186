"""What each pass of a chain computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tf_llama.drafter.chain import Turn

__all__ = ["Row", "passes"]


class Row(NamedTuple):
    """One row of a pass.

    Attributes:
        stream: its turn's place.
        position: in the stream.
        token: what is read, or -1 for the stream's last draft.
        draw: the step whose draft this row gives, or -1.
    """

    stream: int
    position: int
    token: int
    draw: int


def passes(turns: Sequence[Turn], width: int) -> list[list[Row]]:
    """First what the turns have not read, ``width`` rows a pass at most; then a pass a step, a row a stream."""
    unread = []
    for stream, turn in enumerate(turns):
        last = len(turn.unread) - 1
        for at, token in enumerate(turn.unread):
            unread.append(Row(stream, turn.slot.length + at, token, 0 if at == last else -1))
    found = [unread[start : start + width] for start in range(0, len(unread), width)]
    for step in range(1, max(turn.most for turn in turns)):
        found.append(
            [
                Row(stream, turn.slot.length + len(turn.unread) + step - 1, -1, step)
                for stream, turn in enumerate(turns)
                if turn.most > step
            ]
        )
    return found

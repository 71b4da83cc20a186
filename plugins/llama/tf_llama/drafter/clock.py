"""What drafting costs, measured as it happens."""

from __future__ import annotations

from tf_plugins.types import Costs

__all__ = ["Clock"]

DECAY = 0.2
"""How far one measurement moves a mean."""

FEWEST_READ = 16
"""Tokens below which the time of reading says nothing about one."""


class Clock:
    """Decayed means of wall times; a first measurement stands as it is."""

    def __init__(self) -> None:
        self._step: float | None = None
        self._batch: float | None = None
        self._read: float | None = None

    def chained(self, seconds: float, streams: list[int]) -> None:
        """A chain took ``seconds``; ``streams`` says how many took part in each of its steps."""
        further = sum(streams) - len(streams)
        if not further:
            self._step = _moved(self._step, seconds / len(streams))
        elif self._step is not None:
            self._batch = _moved(self._batch, max(0.0, seconds - self._step * len(streams)) / further)

    def read(self, seconds: float, tokens: int) -> None:
        """Reading ``tokens`` of a context took ``seconds``."""
        if tokens >= FEWEST_READ:
            self._read = _moved(self._read, seconds / tokens)

    def costs(self) -> Costs:
        return Costs(self._step or 0.0, self._batch or 0.0, self._read or 0.0)


def _moved(mean: float | None, measured: float) -> float:
    return measured if mean is None else mean + DECAY * (measured - mean)

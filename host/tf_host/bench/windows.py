"""Windows: the same few prompts alone and together, on one server or on two in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tf_host.bench.client import Client
from tf_host.bench.prompts import Prompt
from tf_host.bench.reply import Reply, equal

__all__ = ["Cell", "Plan", "Use", "Window", "run"]

_SEED = 20_000


@dataclass(frozen=True, slots=True)
class Cell:
    """What windows are compared within: a temperature, and how many streams share one."""

    temperature: float
    streams: int


@dataclass(frozen=True, slots=True)
class Use:
    """One request of a bench: a prompt, and the number that makes this use of it new."""

    prompt: Prompt
    number: int

    @property
    def seed(self) -> int:
        """The same for every server and every run."""
        return _SEED + self.number


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        prompts: the prompts; window ``k`` of ``n`` streams takes prompts ``k`` to ``k + n - 1``, round the end.
        levels: streams in a window.
        temperatures: temperatures.
        reps: times that each window is run, with other numbers.
        windows: how many windows; by default one a prompt.
        tokens: most reply tokens.
        ignore_eos: whether replies go on to that length.
        stagger: seconds between the starts of a window's streams.
        alone: send each request of a shared window again by itself, and compare.
        serial: send each request again with ``"draft": false``, by itself, and compare.
    """

    prompts: tuple[Prompt, ...]
    levels: tuple[int, ...] = (1, 2)
    temperatures: tuple[float, ...] = (0.0,)
    reps: int = 1
    windows: int | None = None
    tokens: int = 256
    ignore_eos: bool = False
    stagger: float = 0.0
    alone: bool = False
    serial: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order that a window runs them."""
        return tuple(Cell(temperature, streams) for temperature in self.temperatures for streams in self.levels)

    @property
    def steps(self) -> list[tuple[int, int, Cell]]:
        """``(rep, window, cell)`` in the order they are run."""
        count = self.windows or len(self.prompts)
        return [(rep, window, cell) for rep in range(self.reps) for window in range(count) for cell in self.cells]

    def uses(self, step: int) -> tuple[Use, ...]:
        """The requests of a step; no number comes twice in a bench, whatever the step."""
        _, window, cell = self.steps[step]
        widest = max(self.levels)
        return tuple(
            Use(self.prompts[(window + slot) % len(self.prompts)], 1 + step * widest + slot)
            for slot in range(cell.streams)
        )


@dataclass(slots=True)
class Window:
    """One window on one server.

    Attributes:
        label: the server.
        rep, window, cell: which one.
        uses: the requests.
        replies: what came back, in order.
        seconds: wall time from the first start to the last end.
        alone, serial: whether each reply was the same again, where that was asked for.
        again: the replies behind ``alone`` and ``serial``.
    """

    label: str
    rep: int
    window: int
    cell: Cell
    uses: tuple[Use, ...]
    replies: list[Reply]
    seconds: float
    alone: list[bool] = field(default_factory=list)
    serial: list[bool] = field(default_factory=list)
    again: list[Reply] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every reply is whole."""
        return all(reply.whole for reply in self.replies)

    @property
    def rate(self) -> float | None:
        """Tokens a second: of one stream after its first tokens, of several all tokens over the wall time."""
        if len(self.replies) == 1:
            return self.replies[0].rate
        return sum(reply.tokens for reply in self.replies) / self.seconds if self.whole and self.seconds > 0 else None

    def same(self, other: Window) -> list[bool]:
        """Which replies equal those of another server's run of the same window."""
        return [equal(one, two) for one, two in zip(self.replies, other.replies, strict=True)]


async def run(plan: Plan, servers: Sequence[Client]) -> AsyncIterator[tuple[Window, ...]]:
    """Run every step on every server, one window at a time, each server first, last and between equally often.

    Yields a step's windows in the servers' order. ``alone`` and ``serial`` are run on each server once all of them ran
    the window, so that what is timed comes first everywhere.
    """
    for step, (rep, index, cell) in enumerate(plan.steps):
        uses = plan.uses(step)
        windows: dict[int, Window] = {}
        for place in _order(rep + index, len(servers)):
            windows[place] = await _window(plan, servers[place], rep, index, cell, uses)
        for place, server in enumerate(servers):
            await _again(plan, server, windows[place])
        yield tuple(windows[place] for place in range(len(servers)))


def _order(turn: int, count: int) -> list[int]:
    """Who goes when. By the window, and not by the step: a cell would have one order in all of its windows."""
    first = turn // 2 % count
    order = [*range(first, count), *range(first)]
    return order if turn % 2 == 0 else order[::-1]


async def _window(plan: Plan, server: Client, rep: int, index: int, cell: Cell, uses: tuple[Use, ...]) -> Window:
    async def after(delay: float, use: Use) -> Reply:
        await asyncio.sleep(delay)
        return await _send(plan, server, use, cell)

    replies = list(await asyncio.gather(*(after(slot * plan.stagger, use) for slot, use in enumerate(uses))))
    seconds = max(reply.ended for reply in replies) - min(reply.started for reply in replies)
    return Window(server.label, rep, index, cell, uses, replies, seconds)


async def _again(plan: Plan, server: Client, window: Window) -> None:
    for use, reply in zip(window.uses, window.replies, strict=True):
        if plan.alone and window.cell.streams > 1:
            window.again.append(await _send(plan, server, use, window.cell))
            window.alone.append(equal(reply, window.again[-1]))
        if plan.serial:
            window.again.append(await _send(plan, server, use, window.cell, draft=False))
            window.serial.append(equal(reply, window.again[-1]))


async def _send(plan: Plan, server: Client, use: Use, cell: Cell, **more: Any) -> Reply:
    if plan.ignore_eos:
        more["ignore_eos"] = True
    return await server.send(
        use.prompt, use.number, tokens=plan.tokens, temperature=cell.temperature, seed=use.seed, more=more
    )

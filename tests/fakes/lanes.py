"""Lanes over the fake model, and the naive decoder that their replies are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import mlx.core as mx

from tests.fakes.model import PADDED, VOCAB, FakeModel
from tests.fakes.reading import LetterReader, Sink
from tf_host.lanes import FixedDepths, Lanes
from tf_host.requests import GenerateRequest, Sampling
from tf_host.sampling import Drawer
from tf_host.sampling.penalties import Counts
from tf_plugins.rows import RowPlan
from tf_plugins.types import Demand, Refusal, Window

DRAWER = Drawer(VOCAB, PADDED)
GREEDY = Sampling(seed=1)

_ids = itertools.count()


def request(
    prompt: Sequence[int],
    max_tokens: int = 20,
    sampling: Sampling = GREEDY,
    *,
    stop: tuple[str, ...] = (),
    end_ids: Sequence[int] = (),
    **more: Any,
) -> GenerateRequest:
    return GenerateRequest(
        id=f"r{next(_ids)}",
        prompt=tuple(prompt),
        sampling=sampling,
        max_tokens=max_tokens,
        end_ids=frozenset(end_ids),
        reader=lambda: LetterReader(stop),
        **more,
    )


class CountAdmission:
    """Implements ``Admission``: a budget of streams' bytes, and a record of what it was asked."""

    def __init__(self, parallel: int = 4, budget: int = 1 << 30) -> None:
        self.parallel = parallel
        self.budget = budget
        self.held: dict[int, int] = {}
        self.order: list[int] = []
        self.released: list[int] = []
        self.kept_states: dict[int, list[int]] = {}

    def never(self, demand: Demand) -> Refusal | None:
        if self._bytes(demand) <= self.budget:
            return None
        return Refusal(
            "context_length_exceeded", f"{demand.tokens} tokens never fit", "ask for fewer", param="max_tokens"
        )

    def admit(self, demand: Demand) -> bool:
        nbytes = self._bytes(demand)
        if sum(self.held.values()) + nbytes > self.budget:
            return False
        self.held[demand.stream] = nbytes
        try:
            demand.allocate(demand.restore)
        except BaseException:
            del self.held[demand.stream]
            raise
        self.kept_states[demand.stream] = list(demand.keep)
        self.order.append(demand.stream)
        return True

    def keep(self, stream: int, nbytes: int) -> bool:
        if nbytes not in self.kept_states[stream]:
            return False
        self.kept_states[stream].remove(nbytes)
        return True

    def release(self, stream: int) -> None:
        self.held.pop(stream, None)
        self.released.append(stream)

    def used(self) -> Mapping[str, int]:
        return {"streams": sum(self.held.values())}

    def _bytes(self, demand: Demand) -> int:
        return demand.cache + sum(growth.new for growth in demand.growth().values())


class StateEntry:
    def __init__(self, tokens: tuple[int, ...], state: Any) -> None:
        self.tokens = tokens
        self.state = state
        self.length = len(tokens)
        self.nbytes = state.nbytes


class AllStates:
    """Keeps a state at every chunk start, and finds the longest."""

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan
        self.entries: dict[tuple[int, ...], StateEntry] = {}

    def nbytes(self) -> int:
        return sum(entry.nbytes for entry in self.entries.values())

    def trim(self, room: int, protect: object | None) -> int:
        return 0

    def drop(self, entry: object) -> int:
        return 0

    def find(self, tokens: Sequence[int]) -> StateEntry | None:
        for start in sorted(self.plan.chunk_starts(tokens), reverse=True):
            if 0 < start < len(tokens) and tuple(tokens[:start]) in self.entries:
                return self.entries[tuple(tokens[:start])]
        return None

    def plan_saves(self, tokens: Sequence[int], boundaries: Sequence[int], start: int) -> Sequence[int]:
        return [p for p in self.plan.chunk_starts(tokens) if start < p < len(tokens)][::-1]

    def add(self, tokens: Sequence[int], state: Any) -> None:
        assert len(tokens) == state.length
        self.entries[tuple(tokens)] = StateEntry(tuple(tokens), state)

    def idle(self) -> bool:
        return False


def make_lanes(model: FakeModel | None = None, *, depth: int | None = None, **more: Any) -> Lanes:
    model = model or FakeModel()
    if depth is not None:
        more["depths"] = FixedDepths(depth)
    more.setdefault("admission", CountAdmission())
    return Lanes(model, model.plan, Drawer(model.vocab, model.padded), more.pop("admission"), **more)


def run(lanes: Lanes, turns: int = 5_000) -> int:
    """Turn the lanes until they are idle; the turns that it took."""
    for turn in range(turns):
        if not lanes.step():
            return turn
    raise AssertionError(f"not idle after {turns} turns")


def decode(lanes: Lanes, *requests: GenerateRequest) -> list[Sink]:
    """Submit all, run, and return their clients."""
    sinks = [Sink() for _ in requests]
    for each, sink in zip(requests, sinks, strict=True):
        lanes.submit(each, sink)
    run(lanes)
    return sinks


def naive(
    wanted: GenerateRequest, model: FakeModel | None = None
) -> tuple[tuple[int, ...], str, Literal["stop", "length"]]:
    """One reply the plain way: one row a forward, everything counted again for every token."""
    model = model or FakeModel()
    prompt, sampling = list(wanted.prompt), wanted.sampling
    cache = model.make_cache(len(prompt) + wanted.max_tokens)
    for begin, end in model.plan.chunks(prompt):
        model.prefill(cache, prompt[begin:end])
    tokens, text, reader = list(prompt), "", wanted.reader()
    bias = mx.zeros(VOCAB)
    for token, value in sampling.logit_bias.items():
        bias[token] = value
    while True:
        row = model.verify([Window(cache, tokens[-1:])])[0]
        counts = Counts.of(sampling, prompt, VOCAB)
        if counts is not None:
            counts = counts.after(tokens[len(prompt) :])
        token = DRAWER.draw(row, sampling, len(tokens), counts=counts, bias=bias).token()
        model.keep(cache, 1)
        tokens.append(token)
        if token in wanted.end_ids:
            return tuple(tokens[len(prompt) :]), text + reader.finish(), "stop"
        piece, stopped = reader.feed(token)
        text += piece
        if stopped:
            return tuple(tokens[len(prompt) :]), text, "stop"
        if len(tokens) - len(prompt) == wanted.max_tokens:
            return tuple(tokens[len(prompt) :]), text + reader.finish(), "length"

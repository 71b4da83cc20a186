"""The real lanes, ledger and store over a fake model: the ledger says what exists, and replies stay the same."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import CONTEXT, PLAN, FakeModel
from tests.fakes.proposers import FakeProposer, noise
from tests.fakes.reading import Sink
from tf_host.lanes import Lanes
from tf_host.prompts import PromptStore
from tf_host.requests import Done
from tf_llama.budget.admission import StreamAdmission
from tf_llama.budget.ledger import DRAFTERS, KEPT, STATES, STREAMS
from tf_plugins.types import Growth

TOKEN = 3
"""Bytes a token of the fake drafter."""


class CachingProposer(FakeProposer):
    """Keeps the caches of ended streams, for prompts that begin alike; counts what it really holds."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(noise(seed, 50), "drafter")
        self.live: dict[int, tuple[tuple[int, ...], int]] = {}
        self.freed: list[tuple[tuple[int, ...], int]] = []
        self.peak = 0

    def _found(self, context: Sequence[int]) -> tuple[tuple[int, ...], int] | None:
        return next((kept for kept in self.freed if context and kept[0][:4] == tuple(context[:4])), None)

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        found, nbytes = self._found(context), TOKEN * tokens
        if found is None:
            return Growth(nbytes)
        return Growth(reused=found[1]) if found[1] >= nbytes else Growth(nbytes, found[1], found[1] // 2)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        super().open(stream, context, tokens)
        growth, found = self.growth(context, tokens), self._found(context)
        if found is not None:
            self.freed.remove(found)
        self.live[stream] = (tuple(context), growth.new or growth.reused)

    def close(self, stream: int) -> None:
        super().close(stream)
        self.freed.append(self.live.pop(stream))

    def kept(self) -> int:
        return sum(nbytes for _, nbytes in self.freed)

    def shed(self, room: int) -> int:
        before = self.kept()
        while self.kept() > room:
            self.freed.pop(0)
        return before - self.kept()


class House:
    """Lanes with everything real but the model, in a budget that fits two streams of full length."""

    def __init__(self, *, limit: int | None = None, folder: Path | None = None, streams: float = 2.0) -> None:
        self.model = FakeModel()
        self.drafter = CachingProposer()
        self.store = PromptStore(self.model, PLAN, limit, folder, "key")
        bytes_for = lambda tokens: self.model.cache_bytes(tokens) + TOKEN * tokens  # noqa: E731
        self.budget = int(streams * bytes_for(CONTEXT))
        self.admission = StreamAdmission(
            self.budget, 4, bytes_for, {"drafter": self.drafter}, self.store, states_limit=limit
        )
        self.store.load(self.budget)
        self.lanes: Lanes = make_lanes(
            self.model, admission=self.admission, proposers=(self.drafter,), states=self.store, depth=5
        )

    def check(self) -> None:
        used = self.admission.used()
        assert used[STREAMS] == sum(cache.nbytes for cache in self.model.caches)
        assert used[DRAFTERS] == sum(nbytes for _, nbytes in self.drafter.live.values())
        assert used[KEPT] == self.drafter.kept()
        assert used[STATES] == sum(entry.state.nbytes for entry in self.store._entries.values())
        assert sum(used.values()) + self.admission.reserved() <= self.budget


def prompts(rng: random.Random, count: int) -> list[list[int]]:
    """Prompts of which many begin like an earlier one."""
    made: list[list[int]] = []
    for _ in range(count):
        start = list(rng.choice(made))[: rng.randrange(1, 120)] if made and rng.random() < 0.6 else []
        made.append(start + [rng.randrange(50) for _ in range(rng.randrange(1, 40))])
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [None, 0, 600])
def test_random_lives_of_a_server(seed: int, limit: int | None) -> None:
    rng = random.Random(seed)
    house = House(limit=limit)
    wanted = [
        request(prompt, rng.randrange(1, 30), boundaries=tuple(sorted(rng.sample(range(1, 160), 3))))
        for prompt in prompts(rng, 40)
    ]
    sinks: list[Sink] = []
    while len(sinks) < len(wanted) or not all(sink.ended for sink in sinks):
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            if len(sinks) < len(wanted):
                sinks.append(Sink())
                house.lanes.submit(wanted[len(sinks) - 1], sinks[-1])
        if rng.random() < 0.05:
            running = [sink for sink in sinks if not sink.ended]
            if running:
                rng.choice(running).cancelled = True
        house.lanes.step()
        house.check()
    for one, sink in zip(wanted, sinks, strict=True):
        if not sink.cancelled:
            end = sink.events[-1]
            assert isinstance(end, Done)
            assert end.tokens == naive(one)[0]
    assert house.admission.used()[STREAMS] == house.admission.used()[DRAFTERS] == house.admission.reserved() == 0
    if limit == 0:
        assert house.store.nbytes() == 0


def done(sink: Sink) -> Done:
    end = sink.events[-1]
    assert isinstance(end, Done)
    return end


def chat(house: House, turns: int, restart_after: int | None = None, folder: Path | None = None) -> list[Done]:
    """A chat whose prompts are the earlier prompt, its reply, and 8 new tokens."""
    rng = random.Random(11)
    prompt: list[int] = [rng.randrange(50) for _ in range(20)]
    starts = [20]
    ends = []
    for turn in range(turns):
        if turn == restart_after:
            house.store.flush()
            house = House(folder=folder)
        end = done(decode(house.lanes, request(prompt, 10, boundaries=tuple(starts)))[0])
        house.check()
        ends.append(end)
        prompt = prompt + list(end.tokens) + [rng.randrange(50) for _ in range(8)]
        starts.append(len(prompt) - 8)
    return ends


def test_a_chat_is_the_same_resumed_cold_and_after_a_restart(tmp_path: Path) -> None:
    resumed = chat(House(), 8)
    cold = chat(House(limit=0), 8)
    restarted = chat(House(folder=tmp_path), 8, restart_after=4, folder=tmp_path)
    assert [end.tokens for end in resumed] == [end.tokens for end in cold] == [end.tokens for end in restarted]
    assert all(end.cached_tokens == 0 for end in cold)
    assert [end.cached_tokens for end in restarted] == [end.cached_tokens for end in resumed]
    for before, end in itertools.pairwise(resumed):
        # At most the new tokens, the previous reply and one chunk are read.
        assert end.prompt_tokens - end.cached_tokens <= 8 + len(before.tokens) + PLAN.grid
        assert end.cached_tokens > 0


def test_a_chat_that_fills_the_limit_moves_on() -> None:
    """There is room for one state of the whole prompt: each turn's takes the place of the last turn's."""
    house = House(limit=8 * 130)
    ends = chat(house, 7)
    assert [end.tokens for end in ends] == [end.tokens for end in chat(House(limit=0), 7)]
    for before, end in itertools.pairwise(ends):
        assert end.cached_tokens == (before.prompt_tokens - 1) // PLAN.grid * PLAN.grid
    assert ends[-1].cached_tokens * 8 > 0.7 * 8 * 130


def test_without_the_folder_a_restart_is_cold(tmp_path: Path) -> None:
    """Control of the test above."""
    ends = chat(House(folder=tmp_path), 5, restart_after=4, folder=tmp_path / "other")
    assert ends[3].cached_tokens > 0
    assert ends[4].cached_tokens == 0


def test_every_prompt_around_a_chunk_start_is_as_cold() -> None:
    """A kept state ends at n; prompts that share n-2 to n+2 tokens with it give the cold reply."""
    base = [(7 * n) % 50 for n in range(64)]
    house = House()
    decode(house.lanes, request(base, 4))
    for shared in range(28, 53):
        prompt = [*base[:shared], *((token + 1) % 50 for token in base[shared:])]
        one = request(prompt, 6)
        end = done(decode(house.lanes, one)[0])
        assert end.tokens == naive(one)[0]
        assert end.cached_tokens <= shared


def test_the_head_of_the_queue_is_never_overtaken() -> None:
    """A long stream waits for room while short ones behind it would fit: it is admitted first all the same."""
    house = House(streams=1.2)
    first, long, *short = (
        request([1, 2, 3], 60),
        request([4, 5, 6], CONTEXT - 3),
        *(request([7, 8, n], 3) for n in range(5)),
    )
    order: list[int] = []
    sinks = []
    for number, one in enumerate((first, long, *short)):

        def ended(sink: Sink, event: object, number: int = number) -> None:
            if number not in order:
                order.append(number)

        sinks.append(Sink(ended))
        house.lanes.submit(one, sinks[-1])
    while house.lanes.step():
        house.check()
    assert order[:2] == [0, 1]
    assert all(done(sink) for sink in sinks)


def test_a_failed_allocation_gives_everything_back_and_the_next_request_works() -> None:
    house = House()
    decode(house.lanes, request([1] * 40, 4))
    before = dict(house.admission.used())

    def fails(tokens: int) -> None:
        raise MemoryError("planted")

    house.model.on_make = fails
    (sink,) = decode(house.lanes, request([1] * 60, 4))
    assert not isinstance(sink.events[-1], Done)
    house.check()
    assert house.admission.used() == before
    house.model.on_make = lambda tokens: None
    one = request([1] * 60, 4)
    assert done(decode(house.lanes, one)[0]).tokens == naive(one)[0]

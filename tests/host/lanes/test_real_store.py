"""The lanes with the store that is served with: what it may be asked, and when."""

from __future__ import annotations

import random

from tests.fakes.lanes import CountAdmission, decode, make_lanes, naive, request
from tests.fakes.model import PLAN, FakeModel
from tests.fakes.reading import Sink
from tf_host.prompts import PromptStore


def test_a_conversation_is_the_cold_one_turn_by_turn() -> None:
    model, rng = FakeModel(), random.Random(4)
    store = PromptStore(model, PLAN)
    lanes = make_lanes(model, states=store)
    tokens = [rng.randrange(6) for _ in range(20)]
    cached = []
    for _ in range(5):
        wanted = request(tokens, 9, boundaries=(4, len(tokens) - 3))
        [sink] = decode(lanes, wanted)
        assert sink.tokens == naive(wanted)[0]
        cached.append(sink.done.cached_tokens)
        tokens = [*tokens, *sink.tokens, *(rng.randrange(6) for _ in range(8))]
    assert cached == sorted(set(cached))
    assert store.nbytes() > 0


def test_a_request_that_only_waits_changes_nothing_in_the_store() -> None:
    model = FakeModel()
    store = PromptStore(model, PLAN)
    planned: list[int] = []
    plan_saves = store.plan_saves
    store.plan_saves = lambda *asked: (planned.append(len(asked[0])), plan_saves(*asked))[1]  # type: ignore[method-assign]
    admission = CountAdmission(parallel=1)
    lanes = make_lanes(model, states=store, admission=admission)
    lanes.submit(request([1] * 20, 30), Sink())
    lanes.step()
    admitted = len(planned)
    lanes.submit(request([1] * 40, 3), Sink())
    lanes.step()
    assert len(planned) == admitted

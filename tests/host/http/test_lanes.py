"""HTTP over real lanes: what clients, floods and faults do to streams and memory."""

from __future__ import annotations

import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.fakes.lanes import CountAdmission
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, noise
from tests.fakes.wide_lanes import CONTEXT, PLAN, wide_engine
from tests.host.http.conftest import World
from tests.host.http.test_leaving import connect
from tests.host.http.test_replies import choices, events
from tf_host.lanes import Limits
from tf_host.text import Text
from tf_plugins.types import Window

PAUSE_S = 0.01
"""A round takes this long, so that clients meet it while it runs."""


class Engine:
    """What the tests see of the engine behind a server."""

    def __init__(self) -> None:
        self.model: FakeModel
        self.break_next = threading.Event()

    def prepare(self, model: FakeModel) -> None:
        self.model = model
        model.on_prefill = lambda begin: time.sleep(PAUSE_S / 5)
        model.on_verify = self._round

    def _round(self, windows: Sequence[Window]) -> None:
        time.sleep(PAUSE_S)
        if self.break_next.is_set():
            self.break_next.clear()
            raise RuntimeError("planted")


Serve = Callable[..., tuple[World, Engine]]


@pytest.fixture
def serve(make_world: Callable[..., World], text: Text) -> Iterator[Serve]:
    """Starts servers over lanes that draft."""
    engines = []

    def start(parallel: int = 2, budget: int = 1 << 30, queue: int = 64) -> tuple[World, Engine]:
        engine = Engine()
        made = wide_engine(
            text.vocab,
            [FakeProposer(noise(1, text.vocab))],
            admission=CountAdmission(parallel, budget),
            limits=Limits(queue=queue),
            prepare=engine.prepare,
        )
        engines.append(made)
        return make_world(engine=made.__enter__(), context=CONTEXT), engine

    yield start
    for made in engines:
        made.__exit__(None, None, None)


def health(world: World) -> dict[str, Any]:
    body: dict[str, Any] = world.client.get("/health").json()
    return body


def wait_for(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.005)


def idle(world: World) -> dict[str, Any]:
    wait_for(lambda: sum(health(world)[state] for state in ("waiting", "reading", "decoding")) == 0, "the end of all")
    return health(world)


def test_sixty_clients_that_leave_leave_nothing_behind(serve: Serve) -> None:
    world, _ = serve()
    plain = world.complete([7, 8, 9], max_tokens=40, temperature=0, ignore_eos=True, draft=False).json()
    baseline = idle(world)
    for turn in range(60):
        body = {
            # Long prompts leave while they are read, the others while they decode or wait for one of two lanes.
            "prompt": [turn % 50] * (800 if turn % 4 == 0 else 20),
            "max_tokens": 200,
            "stream": bool(turn % 2),
            "ignore_eos": True,
        }
        client = connect(world, "/v1/completions", body)
        time.sleep(0.012 * (turn % 5))
        client.close()
    after = idle(world)
    assert after["ledger"] == baseline["ledger"] == {"streams": 0}
    assert after["finished"].get("cancelled", 0) > 30
    assert "error" not in after["finished"]
    reply = world.complete([7, 8, 9], max_tokens=40, temperature=0, ignore_eos=True).json()
    assert reply["tf"]["token_sha"] == plain["tf"]["token_sha"]
    assert reply["tf"]["drafted"] > 0


def test_a_client_that_leaves_frees_its_lane_within_a_round(serve: Serve) -> None:
    world, engine = serve(parallel=1)
    client = connect(world, "/v1/completions", {"prompt": [5] * 20, "max_tokens": 900, "ignore_eos": True})
    wait_for(lambda: health(world)["decoding"] == 1, "the reply")
    client.close()
    before = len(engine.model.forwards)
    wait_for(lambda: health(world)["decoding"] == 0, "the cancel")
    # 50 ms until it is noticed, then one round, and the machine may be busy.
    assert len(engine.model.forwards) - before < 60


def test_a_prompt_over_the_budget_disturbs_nobody(serve: Serve) -> None:
    world, engine = serve(budget=FakeModel(PLAN).cache_bytes(512))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ask: dict[str, Any] = {"max_tokens": 100, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        alone = world.complete([3] * 20, **ask).json()["choices"][0]["token_ids"]
        running = pool.submit(lambda: world.complete([3] * 20, **ask).json()["choices"][0]["token_ids"])
        wait_for(lambda: health(world)["decoding"] == 1, "the first reply")
        chunks = len(engine.model.chunks)
        answer = world.complete([4] * 600, max_tokens=10)
        assert not running.done()
        assert len(engine.model.chunks) == chunks, "nothing of it was read"
        assert running.result() == alone
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_a_burst_past_the_queue_is_told_to_come_back(serve: Serve) -> None:
    world, _ = serve(parallel=1, queue=3)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda k: world.complete([k] * 20, max_tokens=30, ignore_eos=True), range(12)))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)
    assert {answer.json()["error"]["code"] for answer in refused} == {"queue_full"}
    assert {answer.status_code for answer in answers} == {200, 503}
    assert world.complete([1], max_tokens=3).status_code == 200


def test_a_forward_that_raises_ends_its_streams_and_health_says_so(serve: Serve) -> None:
    world, engine = serve(parallel=3)
    assert health(world)["last_error"] is None
    with concurrent.futures.ThreadPoolExecutor() as pool:
        streams = [
            pool.submit(world.complete, [k] * 20, max_tokens=900, ignore_eos=True, stream=True) for k in range(3)
        ]
        wait_for(lambda: health(world)["decoding"] == 3, "three streams")
        engine.break_next.set()
        for stream in streams:
            *_, last = events(stream.result())
            assert last["error"]["code"] == "server_error"
            assert "planted" not in json.dumps(last)
    told = idle(world)
    assert told["status"] == "ok"
    assert "planted" in told["last_error"]
    assert told["finished"] == {"error": 3}
    assert told["ledger"] == {"streams": 0}
    assert world.complete([1], max_tokens=3).status_code == 200


@pytest.mark.parametrize("chat", [True, False])
def test_logprobs_do_not_depend_on_drafts_or_streaming(serve: Serve, chat: bool) -> None:
    world, _ = serve()
    path = "/v1/chat/completions" if chat else "/v1/completions"
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": 3} if chat else {"logprobs": 3}
    start: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if chat else {"prompt": "hi"}
    told, drafted = [], []
    for stream in (False, True):
        for draft in (False, True):
            how = {"max_tokens": 40, "temperature": 0.7, "seed": 5, "ignore_eos": True, "stream": stream}
            answer = world.client.post(path, json={**start, **asked, **how, "draft": draft})
            assert answer.status_code == 200, answer.text
            chunks = events(answer) if stream else [answer.json()]
            drafted.append(chunks[-1]["tf"]["drafted"])
            parts = [part["logprobs"] for part in choices(chunks) if part["logprobs"]]
            name = "content" if chat else "token_logprobs"
            told.append([entry for part in parts for entry in part[name]])
            assert len(told[-1]) == 40
    assert told[0] == told[1] == told[2] == told[3]
    assert drafted[0] == drafted[2] == 0
    assert min(drafted[1], drafted[3]) > 0

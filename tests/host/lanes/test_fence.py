"""Whatever a proposer raises or answers is counted with its method, and goes no further."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import VOCAB
from tests.fakes.proposers import FakeProposer, ReadingProposer, always
from tf_host.lanes import fence as fences
from tf_host.lanes.fence import Fence
from tf_plugins.types import Costs, Growth

CALLS: dict[str, Callable[[Fence], object]] = {
    "growth": lambda fence: fence.growth((), 10),
    "kept": lambda fence: fence.kept(),
    "shed": lambda fence: fence.shed(0),
    "costs": lambda fence: fence.costs(),
    "release": lambda fence: fence.release(),
}

NOTHING: dict[str, object] = {"growth": None, "kept": 0, "shed": 0, "costs": Costs(), "release": None}
"""What a failed call comes to."""


def answering(method: str, answer: Any) -> Fence:
    proposer = FakeProposer(always(1))

    def call(*_: object) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    setattr(proposer, method, call)
    return Fence(proposer, "plugin 'house', dist 1.0")


@pytest.mark.parametrize("error", [RuntimeError("planted"), SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("method", CALLS)
def test_what_it_raises_is_a_failure(method: str, error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    fence = answering(method, error)
    assert CALLS[method](fence) == NOTHING[method]
    assert fence.failures.count == 1
    assert fence.failures.last.startswith(f"{method}: {type(error).__name__}")
    [record] = caplog.records
    assert record.getMessage().startswith(f"proposer 'fake' failed in {method}; ")
    assert "(plugin 'house', dist 1.0)\nTraceback" in record.getMessage()


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        *(("growth", answer) for answer in (None, 7, Growth(-1), Growth(None), Growth("a"), Growth(1.0))),  # type: ignore[arg-type]
        *(("growth", answer) for answer in (Growth(reused=-1), Growth(copy=-1), Growth(1, 1, 1), Growth(float("nan")))),  # type: ignore[arg-type]
        *(("kept", answer) for answer in (None, -1, 0.5, "1")),
        *(("shed", answer) for answer in (None, -1, 0.5, "1")),
        *(("costs", answer) for answer in (None, 0.5, Costs(None), Costs("1"), Costs(-1.0))),  # type: ignore[arg-type]
        *(("costs", answer) for answer in (Costs(batch=float("nan")), Costs(read=float("inf")))),
    ],
)
def test_an_answer_of_another_kind_is_a_failure(method: str, answer: object, caplog: pytest.LogCaptureFixture) -> None:
    fence = answering(method, answer)
    for _ in range(3):
        assert CALLS[method](fence) == NOTHING[method]
    assert fence.failures.count == 3
    assert fence.failures.last.startswith(f"{method}: ")
    assert caplog.text.count(f"'fake' failed in {method}") == 1


def test_a_good_answer_comes_through() -> None:
    assert answering("growth", Growth(np.int64(5))).growth((), 1) == Growth(5)  # type: ignore[arg-type]
    assert answering("kept", 7).kept() == 7
    assert answering("costs", Costs(1, np.float32(0.5), 0.0)).costs() == Costs(1.0, 0.5)  # type: ignore[arg-type]


def test_more_than_the_room_is_a_failure() -> None:
    fence = answering("growth", Growth(11))
    assert fence.growth((), 1, room=11) == Growth(11)
    assert fence.growth((), 1, room=10) is None
    assert fence.failures.count == 1


def test_fresh_bytes_are_never_past_those_of_the_start() -> None:
    proposer = FakeProposer(always(1))
    fence = Fence(proposer)
    fence.begin(100, room=100)
    proposer.growth = lambda context, tokens: Growth(10**15)  # type: ignore[method-assign]
    assert fence.fresh(50) == 100
    proposer.raises = "growth"
    del proposer.growth
    assert fence.fresh(50) == 0


def test_bytes_that_are_not_freed_are_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    proposer, kept = FakeProposer(always(1)), [8]
    proposer.kept = lambda: kept[0]  # type: ignore[method-assign]
    fence = Fence(proposer)
    assert (fence.kept(), fence.shed(3), fence.kept()) == (8, 5, 3)
    assert fence.failures.count == 1
    assert "'fake' failed in shed: 5 bytes more are kept" in caplog.text
    kept[0] = 10
    assert fence.kept() == 5, "what is kept from then on is counted"
    kept[0] = 2
    assert fence.kept() == 0
    kept[0] = 6
    assert fence.kept() == 4, "what was freed late is not left out twice"


def test_a_first_slow_call_is_a_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fences, "SLOW_S", 0.05)
    wanted = request([1], 6)
    decode(make_lanes(proposers=[FakeProposer(always(1), seconds=0.06)], depth=2), wanted)
    assert [record.getMessage() for record in caplog.records] == [
        "proposer 'fake' took 0.1 s in propose, and every stream waits for it; later ones are not logged"
    ]


def test_reading_a_context_may_take_its_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class ReadsSlowly(ReadingProposer):
        def read(self, *given: Any) -> None:
            time.sleep(0.12)
            super().read(*given)

        def propose(self, requests: Any) -> Any:
            time.sleep(max(self.unread(request.stream, len(request.context)) for request in requests) / 400)
            return super().propose(requests)

    monkeypatch.setattr(fences, "SLOW_S", 0.1)
    late, ahead = ReadsSlowly(always(1), "late"), ReadsSlowly(always(1), "ahead")
    ahead.piece = 16
    fence = Fence(late)
    fence.reads_ahead = False
    decode(make_lanes(proposers=[fence, ahead], depth=2), request([1] * 60, 6))
    assert late.order[0] == "propose"
    assert ahead.order[0].startswith("read ")
    assert caplog.records == []


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("method", ["growth", "open", "unread", "propose", "observe", "close"])
def test_a_plugin_that_exits_changes_no_reply(method: str, error: BaseException) -> None:
    class Leaves(FakeProposer):
        def _called(self, called: str) -> None:
            if called == method:
                raise error

    proposer = Leaves(always(1))
    wanted = request([3, 1, 2], 10)
    lanes = make_lanes(proposers=[proposer], depth=4)
    [sink] = decode(lanes, wanted)
    assert sink.tokens == naive(wanted)[0]
    assert lanes.snapshot().failures["fake"].last.startswith(f"{method}: {type(error).__name__}")


def test_a_call_s_list_is_the_proposer_s_own() -> None:
    class Clears(FakeProposer):
        def propose(self, requests: Any) -> Any:
            requests.clear()
            return []

    wanted = [request([3, 1, 2], 10), request([2], 10)]
    proposer = Clears(always(VOCAB))
    lanes = make_lanes(proposers=[proposer], depth=4)
    sinks = decode(lanes, *wanted)
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in wanted]
    assert lanes.snapshot().failures["fake"].last == "propose: ValueError: 0 answers to 2 requests"

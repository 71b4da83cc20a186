"""The thread that owns MLX: calls, serving, stopping."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from tests.fakes.lanes import CountAdmission, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.reading import Sink
from tf_host.lanes import EngineThread, Lanes
from tf_host.requests import Done, Event, Handle
from tf_plugins.types import Demand


@pytest.fixture
def engine() -> Iterator[EngineThread]:
    engine = EngineThread()
    yield engine
    engine.stop(0)


def wait(until: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not until():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_calls_run_on_one_thread_and_bring_back_what_they_raise(engine: EngineThread) -> None:
    names = {engine.call(threading.get_ident) for _ in range(5)}
    assert len(names) == 1
    assert names != {threading.get_ident()}
    assert engine.call(lambda: engine.call(threading.get_ident)) in names
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda: 1 // 0)


def test_requests_from_many_threads_get_their_plain_replies(engine: EngineThread) -> None:
    engine.serve(engine.call(lambda: make_lanes(admission=CountAdmission(3))))
    wanted = [request([k, k + 1], 15) for k in range(12)]
    sinks = [Sink() for _ in wanted]
    threads = [threading.Thread(target=engine.submit, args=pair) for pair in zip(wanted, sinks, strict=True)]
    for thread in threads:
        thread.start()
    wait(lambda: all(sink.ended for sink in sinks))
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in wanted]
    for thread in threads:
        thread.join()


def test_an_idle_engine_sleeps_and_wakes(engine: EngineThread, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    step = Lanes.step
    monkeypatch.setattr(Lanes, "step", lambda lanes: (turns.append(1), step(lanes))[1])
    engine.serve(make_lanes())
    time.sleep(0.1)
    assert 1 <= len(turns) <= 2
    sink = Sink()
    engine.submit(request([1], 3), sink)
    wait(lambda: sink.ended)
    snapshot = engine.snapshot()
    assert snapshot is not None
    assert snapshot.tokens == 3


def test_calls_run_between_turns(engine: EngineThread) -> None:
    engine.serve(make_lanes())
    sink = Sink()
    engine.submit(request([1], 180), sink)
    assert engine.call(lambda: 7) == 7
    wait(lambda: sink.ended)
    assert len(sink.tokens) == 180


def test_before_serving_and_after_stopping_requests_are_refused() -> None:
    engine = EngineThread()
    early, late = Sink(), Sink()
    engine.submit(request([1], 3), early)
    engine.serve(make_lanes())
    engine.stop(0)
    engine.submit(request([1], 3), late)
    assert [sink.failed.status for sink in (early, late)] == [503, 503]
    assert not engine.alive
    with pytest.raises(RuntimeError, match="stopped"):
        engine.call(lambda: 1)


def slow_model(seconds: float) -> FakeModel:
    model = FakeModel()
    model.on_verify = lambda windows: time.sleep(seconds)
    return model


def test_stopping_finishes_what_runs_and_refuses_the_rest() -> None:
    engine = EngineThread()
    engine.serve(make_lanes(slow_model(0.01), admission=CountAdmission(1)))
    running, waiting, late = Sink(), Sink(), Sink()
    wanted = request([1], 30)
    engine.submit(wanted, running)
    engine.submit(request([2], 30), waiting)
    wait(lambda: len(running.tokens) > 2)
    released: list[int] = []
    stopping = threading.Thread(target=engine.stop, args=(30, lambda: released.append(threading.get_ident())))
    stopping.start()
    wait(lambda: waiting.ended)
    engine.submit(request([3], 3), late)
    stopping.join(10)
    assert running.tokens == naive(wanted)[0]
    assert (waiting.failed.code, waiting.failed.status) == ("shutting_down", 503)
    assert late.failed.code == "shutting_down"
    assert released
    assert released != [threading.get_ident()]


@pytest.mark.parametrize("twice", [False, True])
def test_a_short_grace_ends_what_still_runs(twice: bool) -> None:
    engine, model, admission = EngineThread(), slow_model(0.02), CountAdmission()
    engine.serve(make_lanes(model, admission=admission))
    running = Sink()
    engine.submit(request([1], 190), running)
    wait(lambda: running.tokens)
    stopping = threading.Thread(target=engine.stop, args=(60 if twice else 0.1,))
    stopping.start()
    if twice:
        time.sleep(0.05)
        engine.stop(0)
    stopping.join(5)
    assert not stopping.is_alive()
    assert running.failed.code == "shutting_down"
    assert 0 < len(running.tokens) < 190
    assert admission.held == {}


def test_a_fault_of_the_lanes_themselves_ends_streams_and_not_the_thread(
    engine: EngineThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lanes: Lanes) -> None:
        raise RuntimeError("planted")

    engine.serve(make_lanes())
    first, second = Sink(), Sink()
    with monkeypatch.context() as planted:
        planted.setattr(Lanes, "_let_go", broken)
        engine.submit(request([1], 3), first)
        wait(lambda: first.ended)
    assert first.failed.status == 500
    engine.submit(request([1], 3), second)
    wait(lambda: second.ended)
    assert second.done.reason == "length"
    assert "the lanes failed" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_plugin_s_exit_ends_streams_and_not_the_thread(
    error: BaseException, engine: EngineThread, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaves(CountAdmission):
        leaving = True

        def admit(self, demand: Demand) -> bool:
            if self.leaving:
                raise error
            return super().admit(demand)

        def release(self, stream: int) -> None:
            if self.leaving:
                raise error
            super().release(stream)

    admission = Leaves()
    engine.serve(make_lanes(admission=admission))
    first, second = Sink(), Sink()
    engine.submit(request([1], 3), first)
    wait(lambda: first.ended)
    assert first.failed.status == 500
    snapshot = engine.snapshot()
    assert snapshot is not None
    assert (snapshot.waiting, snapshot.last_error) == (0, f"the lanes failed: {type(error).__name__}: {error}")
    assert "the lanes failed; every stream is ended" in caplog.text
    admission.leaving = False
    engine.submit(request([1], 3), second)
    wait(lambda: second.ended)
    assert second.done.reason == "length"


def test_every_stream_is_told_although_the_ledger_fails_at_the_end_of_each(engine: EngineThread) -> None:
    class Lost(CountAdmission):
        def used(self) -> Mapping[str, int]:
            if self.order:
                raise SystemExit(3)
            return super().used()

    engine.serve(make_lanes(admission=Lost()))
    sinks = [Sink() for _ in range(3)]
    for sink in sinks:
        engine.submit(request([1], 30), sink)
    wait(lambda: all(sink.ended for sink in sinks))
    assert [sink.failed.status for sink in sinks] == [500] * 3


@pytest.mark.parametrize("method", ["release", "used"])
def test_a_ledger_that_fails_at_the_end_of_a_reply_does_not_cost_it(method: str, engine: EngineThread) -> None:
    def exits(*_: object) -> None:
        raise SystemExit(3)

    admission = CountAdmission()
    engine.serve(make_lanes(slow_model(0.01), admission=admission))
    sink, wanted = Sink(), request([1], 10)
    engine.submit(wanted, sink)
    wait(lambda: sink.tokens)
    setattr(admission, method, exits)
    wait(lambda: sink.ended)
    assert sink.tokens == naive(wanted)[0]
    assert sink.done.reason == "length"


def test_whatever_ends_the_thread_ends_every_stream(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, model = EngineThread(), FakeModel()
    model.on_verify = lambda windows: time.sleep(0.01)
    engine.serve(make_lanes(model))
    running, late = Sink(), Sink()
    engine.submit(request([1], 190), running)
    wait(lambda: running.tokens)
    work = engine._work
    monkeypatch.setattr(engine, "_work", lambda: (work(), 1 // 0)[1])
    wait(lambda: running.ended)
    wait(lambda: not engine.alive)
    assert running.failed.status == 500
    snapshot = engine.snapshot()
    assert snapshot is not None
    assert "ZeroDivisionError" in (snapshot.last_error or "")
    assert "the engine's thread ends" in caplog.text
    engine.submit(request([1], 3), late)
    assert late.failed.status == 503


def test_a_release_that_exits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = EngineThread()
    engine.stop(0, lambda: sys.exit(3))
    assert "not everything could be released" in caplog.text
    assert "SystemExit: 3" in caplog.text


def test_a_handle_brings_events_to_its_event_loop(engine: EngineThread) -> None:
    engine.serve(make_lanes())
    wanted = request([4, 4], 12)

    async def client() -> list[Event]:
        handle = Handle(asyncio.get_running_loop())
        engine.submit(wanted, handle)
        return [event async for event in handle]

    events = asyncio.run(client())
    assert isinstance(events[-1], Done)
    assert events[-1].tokens == naive(wanted)[0]


def test_a_cancel_waits_for_the_round_that_runs_and_no_more(engine: EngineThread) -> None:
    model = slow_model(0.005)
    engine.serve(make_lanes(model))
    sink = Sink()
    engine.submit(request([1], 190), sink)
    wait(lambda: sink.tokens)
    sink.cancelled = True
    rounds = len(model.forwards)
    wait(lambda: sink.ended)
    # One that ran, and one that had looked for cancels just before.
    assert len(model.forwards) <= rounds + 2

"""What fails ends what it belongs to, and nothing else."""

from __future__ import annotations

import logging
from typing import Any

import mlx.core as mx
import pytest

from tests.fakes.lanes import CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, always
from tests.fakes.reading import LetterReader, Sink
from tf_plugins.types import RoundDone, StreamDone


class Observer:
    def __init__(self, raises: bool = False) -> None:
        self.raises = raises
        self.rounds: list[RoundDone] = []
        self.streams: list[StreamDone] = []

    def round_done(self, round: RoundDone) -> None:
        self.rounds.append(round)
        if self.raises:
            raise RuntimeError("planted")

    def stream_done(self, stream: StreamDone) -> None:
        self.streams.append(stream)
        if self.raises:
            raise RuntimeError("planted")


@pytest.mark.parametrize("late", [False, True], ids=["when called", "when evaluated"])
def test_a_failed_round_ends_its_streams_and_the_next_request_works(late: bool) -> None:
    model, admission, proposer, observer = FakeModel(), CountAdmission(), FakeProposer(always(1)), Observer()
    lanes = make_lanes(model, admission=admission, proposers=[proposer], observers=[observer])
    sinks = [Sink() for _ in range(4)]
    for k, sink in enumerate(sinks[:3]):
        lanes.submit(request([k], 30), sink)
    for _ in range(4):
        lanes.step()
    lanes.submit(request([5] * 150, 5), sinks[3])
    lanes.step()  # still reading its prompt
    if late:
        verify = model.verify
        model.verify = lambda windows: _poisoned(verify(windows))  # type: ignore[method-assign]
    else:
        model.on_verify = _raise
    lanes.step()
    assert [sink.failed.status for sink in sinks[:3]] == [500] * 3
    assert not sinks[3].ended
    snapshot = lanes.snapshot()
    assert (snapshot.decoding, snapshot.finished) == (0, {"error": 3})
    assert snapshot.last_error is not None
    assert "a round failed" in snapshot.last_error
    assert proposer.closed == [1, 2, 3]
    assert set(admission.held) == {4}
    assert [stream.reason for stream in observer.streams] == ["error"] * 3
    if late:
        model.verify = verify  # type: ignore[method-assign]
    model.on_verify = lambda windows: None
    run(lanes)
    assert sinks[3].tokens == naive(request([5] * 150, 5))[0]
    wanted = request([7], 20)
    assert decode(lanes, wanted)[0].tokens == naive(wanted)[0]
    assert admission.held == {}
    assert len(model.caches) == 0


def test_logits_that_are_no_numbers_end_their_stream_alone() -> None:
    """As those of broken weights: no token comes of them, least of all the first id for ever."""
    model = FakeModel()
    lanes = make_lanes(model)
    sinks = [Sink() for _ in range(2)]
    for k, sink in enumerate(sinks):
        lanes.submit(request([k], 30), sink)
    for _ in range(4):
        lanes.step()
    verify = model.verify
    model.verify = lambda windows: _broken(verify(windows))  # type: ignore[method-assign]
    lanes.step()
    model.verify = verify  # type: ignore[method-assign]
    run(lanes)
    assert sinks[0].failed.status == 500
    assert sinks[1].tokens == naive(request([1], 30))[0]
    said = lanes.snapshot().last_error
    assert said is not None
    assert "NotNumbers: the model's logits are not numbers" in said


def _broken(logits: mx.array) -> mx.array:
    """Of the first stream."""
    return mx.where(mx.arange(logits.shape[0])[:, None] == 0, mx.nan, logits)


def test_what_runs_is_waited_for_before_a_failed_round_frees_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward that is under way may write them, and MLX does not know of it."""
    model, order = FakeModel(), list[str]()
    admission = CountAdmission()
    lanes = make_lanes(model, admission=admission)
    sink = Sink()
    lanes.submit(request([1], 30), sink)
    for _ in range(3):
        lanes.step()
    release = admission.release
    monkeypatch.setattr(admission, "release", lambda stream: (order.append("freed"), release(stream)))
    monkeypatch.setattr(mx, "synchronize", lambda *given: order.append("waited"))
    model.on_verify = _raise
    lanes.step()
    assert sink.failed.status == 500
    assert order[:2] == ["waited", "freed"]


def _raise(windows: Any) -> None:
    raise RuntimeError("planted")


def _poisoned(logits: mx.array) -> mx.array:
    """Raises only when it is evaluated, as a device error would."""
    return logits + mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu)[0, 0]


def test_a_prompt_that_cannot_be_read_fails_alone() -> None:
    model, admission = FakeModel(), CountAdmission()

    def on_prefill(begin: int) -> None:
        if begin == 32:
            raise RuntimeError("planted")

    model.on_prefill = on_prefill
    wanted = request([1], 40)
    good, bad = decode(make_lanes(model, admission=admission), wanted, request([2] * 60, 4))
    assert bad.failed.status == 500
    assert good.tokens == naive(wanted)[0]
    assert (admission.held, len(model.caches)) == ({}, 0)


def test_a_reader_that_raises_fails_its_stream_alone() -> None:
    class Broken(LetterReader):
        def feed(self, token: int) -> tuple[str, bool]:
            if self.fed == 5:
                raise UnicodeError("planted")
            return super().feed(token)

    wanted, broken = request([1], 20), request([2], 20)
    object.__setattr__(broken, "reader", Broken)
    lanes = make_lanes()
    good, bad = decode(lanes, wanted, broken)
    assert good.tokens == naive(wanted)[0]
    assert len(bad.tokens) == 5
    assert bad.failed.status == 500
    assert "planted" not in bad.failed.message  # the log knows more than the client
    assert "planted" in (lanes.snapshot().last_error or "")


def test_an_observer_that_raises_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    broken, other = Observer(raises=True), Observer()
    wanted = request([1], 20)
    [sink] = decode(make_lanes(observers=[broken, other]), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert len(other.rounds) == len(broken.rounds) == 20
    assert "Observer" in caplog.text


def test_observers_are_told_of_rounds_and_ends() -> None:
    observer = Observer()
    lanes = make_lanes(observers=[observer], proposers=[FakeProposer(always(3))], depth=2)
    wanted = [request([1], 10), request([2], 14)]
    sinks = decode(lanes, *wanted)
    assert [stream.id for stream in observer.streams] == [each.id for each in wanted]
    assert [tuple(stream.tokens) for stream in observer.streams] == [sink.tokens for sink in sinks]
    assert observer.rounds[0].streams == 2
    assert (observer.rounds[0].rows, observer.rounds[0].padded) == (6, 8)
    assert observer.rounds[0].drafted == {"fake": 4}
    assert sum(r.drafted.get("fake", 0) for r in observer.rounds) == lanes.snapshot().drafted["fake"]
    assert all(r.seconds > 0 for r in observer.rounds)


def test_one_line_a_finished_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tf_host.lanes")
    wanted = request([1, 2, 3], 10)
    decode(make_lanes(proposers=[FakeProposer(always(3))], depth=2), wanted)
    [line] = [record.message for record in caplog.records]
    assert line.startswith(f"{wanted.id}: length, prompt 3 (cached 0), 10 tokens in ")
    assert "fake " in line
    assert "tok/s" in line


def test_counters_are_consistent() -> None:
    lanes = make_lanes(proposers=[FakeProposer(always(3))])
    sinks = decode(lanes, *(request([k] * (k + 1), 10 + k) for k in range(6)))
    snapshot = lanes.snapshot()
    assert snapshot.tokens == sum(len(sink.tokens) for sink in sinks)
    assert snapshot.prompt_tokens == sum(range(1, 7))
    assert snapshot.finished == {"length": 6}
    assert snapshot.kept["fake"] == sum(sink.done.kept.get("fake", 0) for sink in sinks)
    assert (snapshot.waiting, snapshot.reading, snapshot.decoding) == (0, 0, 0)
    assert snapshot.ledger == {"streams": 0}

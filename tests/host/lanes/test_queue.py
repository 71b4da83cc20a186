"""Who gets a lane, and when."""

from __future__ import annotations

import threading

from tests.fakes.lanes import CountAdmission, decode, make_lanes, naive, request, run
from tests.fakes.model import PLAN, FakeModel
from tests.fakes.proposers import FakeProposer, always
from tests.fakes.reading import Sink
from tf_host.lanes import Limits
from tf_plugins.types import Demand, Refusal

BYTES = FakeModel().cache_bytes


def test_lanes_are_given_in_order() -> None:
    admission = CountAdmission(parallel=2)
    lanes = make_lanes(admission=admission)
    decode(lanes, *(request([k], 5 + k) for k in range(6)))
    assert admission.order == sorted(admission.order)


def test_no_more_streams_than_lanes() -> None:
    lanes = make_lanes(admission=CountAdmission(parallel=2))
    for k in range(5):
        lanes.submit(request([k], 9), Sink())
    while lanes.step():
        snapshot = lanes.snapshot()
        assert snapshot.reading + snapshot.decoding <= 2


def test_the_head_of_the_queue_is_never_passed() -> None:
    # A small stream would fit beside the first; the large one before it does not, and keeps its place.
    admission = CountAdmission(parallel=4, budget=BYTES(151))
    lanes = make_lanes(admission=admission)
    wanted = [request([1], 19), request([2], 150), request([3], 19)]
    sinks = decode(lanes, *wanted)
    assert admission.order == [1, 2, 3]
    assert [sink.tokens for sink in sinks] == [naive(each)[0] for each in wanted]


def test_a_waiting_head_is_asked_again_only_when_a_stream_ends() -> None:
    admission = CountAdmission(parallel=4, budget=BYTES(150))
    asked = []
    admit = admission.admit
    admission.admit = lambda demand: (asked.append(demand.stream), admit(demand))[1]  # type: ignore[method-assign]
    decode(make_lanes(admission=admission), request([1], 30), request([2], 150))
    assert asked == [1, 2, 2]


def test_a_full_queue_is_refused_with_503_and_later_requests_are_served() -> None:
    lanes = make_lanes(admission=CountAdmission(parallel=1), limits=Limits(queue=2))
    sinks = [Sink() for _ in range(5)]
    for k, sink in enumerate(sinks):
        lanes.submit(request([k], 4), sink)
    # One has the lane, and two wait.
    assert [sink.ended for sink in sinks] == [False, False, False, True, True]
    assert (sinks[3].failed.code, sinks[3].failed.status) == ("queue_full", 503)
    lanes.step()
    late = Sink()
    lanes.submit(request([7], 4), late)
    assert late.failed.code == "queue_full"
    assert late.failed.message.startswith("2 requests are waiting already, the limit of --queue")
    run(lanes)
    assert {sink.done.reason for sink in sinks[:3]} == {"length"}
    assert decode(lanes, request([9], 4))[0].done.reason == "length"


def test_a_queue_of_none_still_fills_the_lanes() -> None:
    lanes = make_lanes(admission=CountAdmission(parallel=2), limits=Limits(queue=0))
    sinks = [Sink() for _ in range(3)]
    for k, sink in enumerate(sinks):
        lanes.submit(request([k], 4), sink)
    run(lanes)
    assert [sink.ended and hasattr(sink.events[-1], "code") for sink in sinks] == [False, False, True]


def test_what_can_never_fit_is_refused_before_it_queues() -> None:
    admission = CountAdmission(budget=BYTES(64))
    lanes = make_lanes(admission=admission)
    too_big, fits = decode(lanes, request([1], 100), request([1], 20))
    assert (too_big.failed.code, too_big.failed.status) == ("context_length_exceeded", 400)
    assert too_big.failed.message == "101 tokens never fit; ask for fewer"
    assert too_big.failed.param == "max_tokens"
    assert fits.done.reason == "length"
    assert admission.order == [2]


def test_a_request_past_the_context_is_refused_with_the_numbers() -> None:
    [sink] = decode(make_lanes(), request([1] * 100, PLAN.context - 99))
    assert (sink.failed.code, sink.failed.status) == ("context_length_exceeded", 400)
    assert "100" in sink.failed.message
    assert str(PLAN.context) in sink.failed.message


def test_an_empty_prompt_is_refused() -> None:
    [sink] = decode(make_lanes(), request([], 5))
    assert sink.failed.status == 400


def test_a_refusal_that_cannot_be_sent_is_a_failure_of_the_server() -> None:
    admission = CountAdmission()
    admission.never = lambda demand: Refusal("no", "no", "no", status=9_999)  # type: ignore[method-assign]
    lanes = make_lanes(admission=admission)
    [sink] = decode(lanes, request([1], 3))
    assert sink.failed.status == 500
    assert "in never: the status of its Refusal is 9999" in (lanes.snapshot().last_error or "")


def test_a_failed_allocation_fails_its_stream_alone_and_gives_everything_back() -> None:
    model, proposer, admission = FakeModel(), FakeProposer(always(1)), CountAdmission()

    def on_make(tokens: int) -> None:
        if tokens == 31:
            raise MemoryError("planted")

    model.on_make = on_make
    lanes = make_lanes(model, admission=admission, proposers=[proposer])
    wanted = [request([1], 20), request([2], 30), request([3], 20)]
    sinks = decode(lanes, *wanted)
    assert sinks[1].failed.status == 500
    assert [sinks[k].tokens for k in (0, 2)] == [naive(wanted[k])[0] for k in (0, 2)]
    assert admission.held == {}
    assert proposer.opened == proposer.closed
    assert len(model.caches) == 0


def test_a_reader_that_cannot_be_made_gives_everything_back() -> None:
    model, proposer, admission = FakeModel(), FakeProposer(always(1)), CountAdmission()
    admit, when_it_raised = admission.admit, []

    def watched(demand: Demand) -> bool:
        try:
            return admit(demand)
        except ValueError:
            when_it_raised.append(list(proposer.closed))  # the ledger gives the bytes back now, so they are gone
            raise

    admission.admit = watched  # type: ignore[method-assign]
    lanes = make_lanes(model, admission=admission, proposers=[proposer])

    def broken() -> None:
        raise ValueError("planted")

    wanted = request([1], 5)
    object.__setattr__(wanted, "reader", broken)
    assert decode(lanes, wanted)[0].failed.status == 500
    assert (proposer.opened, proposer.closed, when_it_raised) == ([1], [1], [[1]])
    assert admission.held == {}
    assert len(model.caches) == 0


def test_a_ledger_that_admits_nobody_does_not_hold_the_queue_for_ever() -> None:
    admission = CountAdmission()
    admission.admit = lambda demand: False  # type: ignore[method-assign]
    [sink] = decode(make_lanes(admission=admission), request([1], 5))
    assert sink.failed.status == 500


def test_a_client_that_left_the_queue_holds_nothing() -> None:
    admission = CountAdmission(parallel=1)
    lanes = make_lanes(admission=admission)
    sinks = [Sink() for _ in range(3)]
    for k, sink in enumerate(sinks):
        lanes.submit(request([k], 9), sink)
    lanes.step()
    sinks[1].cancelled = True
    lanes.step()
    assert sinks[1].failed.code == "cancelled"
    run(lanes)
    assert admission.order == [1, 3]


def test_sixty_clients_that_leave_at_every_stage_leave_nothing_behind() -> None:
    model, admission, proposer = FakeModel(), CountAdmission(parallel=2), FakeProposer(always(2))
    lanes = make_lanes(model, admission=admission, proposers=[proposer])
    for turn in range(60):
        sinks = [Sink() for _ in range(4)]
        for k, sink in enumerate(sinks):
            lanes.submit(request([k] * (1 + 40 * (k % 2)), 20), sink)
        for _ in range(turn % 8):
            lanes.step()
        for sink in sinks:
            sink.cancelled = True
        lanes.step()
        assert admission.held == {}
        assert all(sink.ended for sink in sinks)
    assert len(model.caches) == 0
    assert proposer.streams == set()
    assert lanes.snapshot().ledger == {"streams": 0}
    wanted = request([1], 30)
    [after] = decode(lanes, wanted)
    assert after.tokens == naive(wanted)[0]
    assert after.done.drafted["fake"] > 0


def test_a_chunk_or_a_round_is_all_that_a_cancel_waits_for() -> None:
    model = FakeModel()
    lanes = make_lanes(model)
    reading, decoding = Sink(), Sink()
    lanes.submit(request([1] * 160, 4), reading)
    lanes.submit(request([2], 100), decoding)
    for _ in range(3):
        lanes.step()
    chunks, forwards = len(model.chunks), len(model.forwards)
    reading.cancelled = decoding.cancelled = True
    lanes.step()
    assert reading.failed.code == decoding.failed.code == "cancelled"
    assert (len(model.chunks), len(model.forwards)) == (chunks, forwards)


def test_the_bound_holds_for_many_submitting_threads() -> None:
    lanes = make_lanes(admission=CountAdmission(parallel=1), limits=Limits(queue=10))
    sinks = [Sink() for _ in range(200)]
    threads = [
        threading.Thread(target=lambda part=part: [lanes.submit(request([1], 2), sink) for sink in part])
        for part in (sinks[k::8] for k in range(8))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not sink.ended for sink in sinks) == 1 + 10
    run(lanes)
    assert sum(hasattr(sink.events[-1], "reason") for sink in sinks) == 1 + 10

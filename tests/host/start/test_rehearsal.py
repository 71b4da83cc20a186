"""The rehearsal before the port opens fits whatever context is served."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.lanes import make_lanes
from tests.fakes.model import PLAN
from tests.fakes.proposers import FakeProposer, always
from tf_host.lanes.depths import FORCED, RoundSample
from tf_host.lanes.fixed_depths import NoDrafts
from tf_host.requests import Done, Failed, GenerateRequest
from tf_host.start.rehearsal import rehearse


class Lanes:
    """Takes one request, as real lanes of ``context`` tokens would, and ends it at the first turn."""

    def __init__(self, context: int) -> None:
        self.context, self.request = context, None

    def submit(self, request: GenerateRequest, client: Any) -> None:
        self.request = request
        if len(request.prompt) + request.max_tokens > self.context:
            client.send(Failed("past the context", "context_length_exceeded", 400))
        else:
            client.send(Done("length", (1,), len(request.prompt), 0, 1))

    def step(self) -> bool:
        return False


@pytest.mark.parametrize("context", [64, 128, 8_192])
def test_it_fits_the_context(context: int) -> None:
    lanes = Lanes(context)
    rehearse(lambda depths: lanes, NoDrafts(), range(1, 60), context, 1.0)  # type: ignore[arg-type, return-value]
    assert lanes.request is not None
    assert lanes.request.max_tokens >= 32


def test_a_rehearsal_that_fails_stops_the_start() -> None:
    with pytest.raises(RuntimeError, match="past the context"):
        rehearse(lambda depths: Lanes(10), NoDrafts(), range(1, 60), 128, 1.0)  # type: ignore[arg-type, return-value]


class Counting:
    """Depths that count the drafts of the rounds they are told of, by whose they were."""

    def __init__(self) -> None:
        self.rounds: list[tuple[int | None, int]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: None

    def record_round(self, sample: RoundSample) -> None:
        self.rounds += [(outcome.proposer, outcome.drafted) for outcome in sample.outcomes]


@pytest.mark.parametrize(
    ("proposers", "whose"), [([FakeProposer(lambda request: None)], FORCED), ([FakeProposer(always(4))], 0)]
)
def test_rounds_of_many_widths_are_timed_whether_a_proposer_drafts_or_not(
    proposers: list[FakeProposer], whose: int
) -> None:
    counted = Counting()
    rehearse(
        lambda depths: make_lanes(proposers=proposers, depths=depths),
        counted,  # type: ignore[arg-type]
        range(1, 40),
        PLAN.context,
        30.0,
    )
    drafted = {drafted for proposer, drafted in counted.rounds if proposer == whose}
    assert len(drafted) >= 4
    assert {proposer for proposer, _ in counted.rounds} == {None, whose}


def test_a_server_without_proposers_rehearses_plain_rounds() -> None:
    counted = Counting()
    rehearse(lambda depths: make_lanes(depths=depths), counted, range(1, 40), PLAN.context, 30.0)  # type: ignore[arg-type]
    assert {drafted for _, drafted in counted.rounds} == {0}

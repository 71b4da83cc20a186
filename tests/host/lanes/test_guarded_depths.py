"""A fault in what decides depths costs drafts, and no reply."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import FakeModel
from tests.fakes.proposers import FakeProposer, oracle
from tf_host.lanes.fixed_depths import FixedDepths
from tf_host.lanes.guarded_depths import GuardedDepths

WANTED = request([3, 1], 30)
METHODS = [name for name in vars(FixedDepths) if not name.startswith("_")]


@pytest.mark.parametrize("method", METHODS)
def test_depths_that_fail_cost_drafts_and_no_reply(method: str, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []

    def fail(*given: Any) -> Any:
        asked.append(1)
        if len(asked) < 3:
            return getattr(FixedDepths(4), method)(*given)
        raise ZeroDivisionError("planted")

    failing = FixedDepths(4)
    setattr(failing, method, fail)
    right = naive(WANTED)[0]
    proposer = FakeProposer(oracle({WANTED.prompt: right}))
    lanes = make_lanes(FakeModel(leaves=True), proposers=[proposer], depths=GuardedDepths(failing))
    for _ in range(4):
        sinks = decode(lanes, WANTED, WANTED)
        assert [sink.tokens for sink in sinks] == [right, right]
    assert caplog.text.count("pricing failed; replies stay the same") == (len(asked) >= 3)
    assert caplog.text.count("ZeroDivisionError: planted") == (len(asked) >= 3)
    if method in ("plan", "choose", "trim", "record_round", "forget"):
        assert len(asked) == 3
        drafted = proposer.calls[:]
        decode(lanes, WANTED)
        assert proposer.calls == drafted

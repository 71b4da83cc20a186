"""The rehearsal before the port opens fits whatever context is served."""

from __future__ import annotations

from typing import Any

import pytest

from tf_host.lanes.depths import NoDrafts
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

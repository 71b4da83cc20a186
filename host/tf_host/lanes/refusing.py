"""Why a request gets no lane, as its client is told."""

from __future__ import annotations

from tf_host.lanes.admitting import Admitting
from tf_host.lanes.stream import Stream
from tf_host.requests import Failed
from tf_plugins.types import Refusal

SHUTTING_DOWN = Failed("the server is shutting down", code="shutting_down", status=503)


def queue_full(queue: int) -> Failed:
    """As many wait as may."""
    return Failed(
        f"{queue} requests are waiting already, the limit of --queue; try again later", "queue_full", status=503
    )


def unfit(stream: Stream, context: int, admitting: Admitting) -> Failed | None:
    """Why a stream could never run here, if it could not: however long it waited, nothing would change."""
    request = stream.request
    if not request.prompt or request.max_tokens < 1:
        return Failed("a request needs a prompt and at least one reply token", "invalid_request", 400)
    if stream.most_positions > context:
        return Failed(
            f"the prompt of {len(request.prompt)} tokens and a reply of up to {request.max_tokens} do not fit the "
            f"context of {context} tokens",
            code="context_length_exceeded",
            status=400,
        )
    refusal = admitting.refusal(stream)
    return None if refusal is None else refused(refusal)


def refused(refusal: Refusal) -> Failed:
    """A refusal, as an event."""
    return Failed(refusal.sentence, refusal.name, refusal.status, refusal.param)

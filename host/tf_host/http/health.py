"""``GET /health``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from tf_host.http.errors import RETRY_AFTER_S
from tf_host.http.server import Served
from tf_host.http.traffic import Traffic


def health_of(served: Served, traffic: Traffic, *, details: bool) -> JSONResponse:
    """Status 200 while requests are answered, else 503.

    Args:
        served: the served model.
        traffic: its replies.
        details: whether to show more than the status.
    """
    snapshot = as_mapping(served.engine.snapshot())
    status = "draining" if traffic.draining else "ok" if served.engine.alive else "failed"
    body: dict[str, Any] = {"status": status}
    if details:
        body |= {"model": served.names[0], "system_fingerprint": served.fingerprint} | snapshot
    if status == "ok":
        return JSONResponse(body)
    return JSONResponse(body, status_code=503, headers={"Retry-After": str(RETRY_AFTER_S)})


def as_mapping(snapshot: Any) -> dict[str, Any]:
    """The engine's snapshot as JSON-ready fields."""
    if dataclasses.is_dataclass(snapshot) and not isinstance(snapshot, type):
        return dataclasses.asdict(snapshot)
    if snapshot is None or isinstance(snapshot, Mapping):
        return dict(snapshot or {})
    raise TypeError(f"a snapshot is a mapping or a dataclass, not {type(snapshot).__name__}")

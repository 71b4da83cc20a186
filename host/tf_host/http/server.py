"""What the HTTP side serves from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tf_host.http.metrics import Metrics
from tf_host.requests import GenerateRequest, Handle
from tf_host.settings import ServerSettings
from tf_host.text import Text
from tf_plugins.types import Refusal, RequestFacts

MIB = 1 << 20


class Engine(Protocol):
    """What makes replies (``tf_host.lanes.EngineThread``). Called from the event loop; returns at once."""

    @property
    def alive(self) -> bool:
        """Whether it still works."""

    def submit(self, request: GenerateRequest, client: Handle, /) -> None:
        """Queue a request; one that cannot queue gets ``Failed`` as its only event."""

    def snapshot(self) -> Any:
        """What it does now, for ``/health`` and ``/metrics``: a mapping, a dataclass, or ``None`` for nothing yet."""


class Gate(Protocol):
    """Who may object to a request (``tf_host.plugins.Plugins``)."""

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        """The first objection, or ``None``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take.

    Attributes:
        header_s: seconds for the headers of a request to arrive.
        body_s: seconds for its body.
        idle_s: seconds that an idle connection is kept.
        send_s: seconds that a stream waits for a client that reads nothing.
        stops: stop strings a request.
        stop_chars: characters of one stop string.
        ping_s: seconds between keep-alive comments on a stream that has nothing to send.
    """

    header_s: float = 15.0
    body_s: float = 60.0
    idle_s: float = 75.0
    send_s: float = 120.0
    stops: int = 16
    stop_chars: int = 1_000
    ping_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Served:
    """One served model.

    Attributes:
        engine: makes replies.
        text: its tokenizer.
        settings: the server's settings.
        plugins: asked before a request queues.
        names: names that requests may use; the first is shown.
        fingerprint: the reply's ``system_fingerprint``.
        context: longest prompt and reply together, in tokens.
        vocab: token ids below this may be sent.
        sampling: the checkpoint's own sampling defaults (generation_config.json).
        created: when the model was loaded, in seconds since 1970.
        limits: what one client may take.
        metrics: what is counted; the lanes' observer, too.
    """

    engine: Engine
    text: Text
    settings: ServerSettings
    plugins: Gate
    names: tuple[str, ...]
    fingerprint: str
    context: int
    vocab: int
    sampling: Mapping[str, float] = field(default_factory=dict)
    created: int = 0
    limits: Limits = Limits()
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def body_bytes(self) -> int:
        """The largest request body."""
        return int(self.settings.max_body_mib * MIB)

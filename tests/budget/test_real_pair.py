"""On the demo pair: the ledger's bytes are the bytes that MLX holds."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest

from tests.fakes.reading import Sink
from tf_host.plugins import Plugins
from tf_host.requests import Done, GenerateRequest, Sampling
from tf_host.settings import ServerSettings
from tf_host.start.composed import Composed
from tf_host.start.composing import compose
from tf_plugins.types import Device

pytestmark = [pytest.mark.exact, pytest.mark.slow]

CONTEXT = 8_192
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(device: Device, backend: str, demo_folders: object) -> Iterator[Composed]:
    """The demo target with its drafter and the default options, its lanes turning."""
    if device.kind == "cpu" and backend != "mkl" and _mkl():
        pytest.skip("minutes on this backend, and bytes are bytes: the MKL suite runs it")
    settings = ServerSettings(model="demo", drafter="", parallel=2, cpu_blas="none")
    plugins = Plugins.load(settings)
    composed = compose(settings, device, plugins, lambda doing, done: None)
    try:
        composed.engine.serve(composed.lanes)
        yield composed
    finally:
        composed.close()


def _mkl() -> bool:
    try:
        return bool(importlib.metadata.version("mkl"))
    except importlib.metadata.PackageNotFoundError:
        return False


class Reader:
    """Text is nobody's concern here."""

    def feed(self, token: int) -> tuple[str, bool]:
        return "", False

    def finish(self) -> str:
        return ""


def request(prompt: list[int], max_tokens: int, name: str = "r") -> GenerateRequest:
    return GenerateRequest(
        id=name,
        prompt=tuple(prompt),
        sampling=Sampling(seed=1),
        max_tokens=max_tokens,
        end_ids=frozenset(),
        reader=Reader,
    )


def held(server: Composed) -> tuple[int, int]:
    """Active bytes and the ledger's, between two turns."""
    return server.engine.call(lambda: (mx.get_active_memory(), sum(server.admission.used().values())))


def emptied(server: Composed) -> int:
    """Active bytes with nothing kept."""

    def empty() -> int:
        for proposer in server.proposers:
            proposer.shed(0)
        server.admission._states.trim(0, None)  # type: ignore[attr-defined]
        assert sum(server.admission.used().values()) == 0
        return mx.get_active_memory()

    return server.engine.call(empty)


def serve(server: Composed, *requests: GenerateRequest, tokens: int) -> list[tuple[int, int]]:
    """Samples while the requests run; each leaves after ``tokens`` reply tokens, or at its end."""
    sinks = [Sink(lambda sink, event: _leave(sink, tokens)) for _ in requests]
    for one, sink in zip(requests, sinks, strict=True):
        server.engine.submit(one, sink)
    samples = []
    while not all(sink.ended for sink in sinks):
        samples.append(held(server))
    return samples


def _leave(sink: Sink, tokens: int) -> None:
    if sum(len(delta.tokens) for delta in sink.deltas) >= tokens:
        sink.cancelled = True


def prompt(length: int, seed: int = 0) -> list[int]:
    return [(position * 37 + seed * 101) % 4_000 + 300 for position in range(length)]


@pytest.fixture(scope="module")
def size(backend: str) -> tuple[int, int]:
    """Prompt and reply tokens: MLX's own matrix products make a few rows a second."""
    return (150, 40) if backend in ("mkl", "mkl-plain") else (70, 16)


def test_the_start_fits_both_caches(server: Composed) -> None:
    assert server.plan.context == CONTEXT
    assert server.admission.parallel == 2
    assert {proposer.name for proposer in server.proposers} >= {"drafter"}
    stream = server.model.cache_bytes(CONTEXT) + sum(one.growth((), CONTEXT).new for one in server.proposers)
    assert stream <= server.admission.budget


@pytest.mark.parametrize("streams", [1, 2])
def test_the_ledger_is_what_mlx_holds(
    server: Composed, streams: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cache = server.model.make_cache

    def whole(tokens: int) -> Any:
        """What is booked is what a cache comes to: on a CPU it would get there with its last positions."""
        cache: Any = make_cache(tokens)
        cache.hold(cache.capacity)
        return cache

    monkeypatch.setattr(server.model, "make_cache", whole)
    serve(server, request(prompt(20), 5), tokens=5)
    baseline = emptied(server)
    samples = serve(server, *(request(prompt(size[0], n + 1), 1_800, f"r{n}") for n in range(streams)), tokens=size[1])
    busy = [(active - baseline, ledger) for active, ledger in samples if ledger]
    assert len(busy) >= 5
    worst = max(busy, key=lambda one: abs(one[0] - one[1]) / one[1])
    print(
        f"{streams} streams: {len(busy)} samples, ledger up to {max(ledger for _, ledger in busy) / MIB:.1f} MiB, "
        f"at worst {worst[0] / MIB:.2f} active for {worst[1] / MIB:.2f} in the ledger"
    )
    for active, ledger in busy:
        # Closer than a drafter cache is to a stream's: one that was left out would show.
        assert abs(active - ledger) <= 0.02 * ledger, (active / MIB, ledger / MIB)
    kept_active, kept_ledger = held(server)
    assert abs(kept_active - baseline - kept_ledger) <= max(0.02 * kept_ledger, MIB / 4)
    after = emptied(server)
    assert abs(after - baseline) <= MIB, "back at the warmed baseline"


def test_a_resumed_prompt_gives_the_cold_reply_and_is_counted(server: Composed, size: tuple[int, int]) -> None:
    emptied(server)
    ends = []
    for name in ("cold", "resumed"):
        sink = Sink()
        server.engine.submit(request(prompt(size[0], 9), 8, name), sink)
        while not sink.ended:
            held(server)
        assert isinstance(sink.events[-1], Done)
        ends.append(sink.events[-1])
    cold, resumed = ends
    assert cold.tokens == resumed.tokens
    assert (cold.cached_tokens, resumed.cached_tokens) == (0, (size[0] - 1) // 64 * 64)
    used = server.admission.used()
    assert used["prompt states"] == server.model.state_bytes(resumed.cached_tokens)

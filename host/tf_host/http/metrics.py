"""Counters and histograms, for ``GET /metrics``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tf_plugins.types import RoundDone, StreamDone

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128)

_VLLM = {
    "tf:streams": "vllm:request_success",
    "tf:prompt_tokens": "vllm:prompt_tokens",
    "tf:cached_tokens": "vllm:prefix_cache_hits",
    "tf:reply_tokens": "vllm:generation_tokens",
    "tf:drafted_tokens": "vllm:spec_decode_num_draft_tokens",
    "tf:accepted_tokens": "vllm:spec_decode_num_accepted_tokens",
    "tf:first_token_seconds": "vllm:time_to_first_token_seconds",
    "tf:stream_seconds": "vllm:e2e_request_latency_seconds",
    "tf:streams_running": "vllm:num_requests_running",
    "tf:streams_waiting": "vllm:num_requests_waiting",
    "tf:ledger_used_ratio": "vllm:kv_cache_usage_perc",
}
"""Names that dashboards for vLLM read, for what has the same meaning here."""

_LABELS = {"reason": "finished_reason"}


class Metrics:
    """Everything counted since the start. An observer of the lanes: ``round_done`` and ``stream_done``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tf:{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: Iterable[float]) -> Histogram:
            return Histogram(f"tf:{name}", text, buckets=tuple(buckets), registry=self.registry)

        self._responses = counter("http_responses", "HTTP responses", "route", "status")
        self._streams = counter("streams", "Streams that ended", "reason")
        self._prompt = counter("prompt_tokens", "Prompt tokens of streams that ended")
        self._cached = counter("cached_tokens", "Prompt tokens taken from kept states")
        self._reply = counter("reply_tokens", "Reply tokens of streams that ended")
        self._drafted = counter("drafted_tokens", "Drafts verified", "source")
        self._accepted = counter("accepted_tokens", "Drafts kept", "source")
        self._first = histogram("first_token_seconds", "From a request's submission to its first token", _SECONDS)
        self._whole = histogram("stream_seconds", "From a request's submission to its end", _SECONDS)
        self._round = histogram("round_seconds", "Wall time of a round", _SECONDS)
        self._rows = histogram("round_rows", "Real rows of a round", _ROWS)
        self._padded = histogram("round_padded_rows", "Rows of a round with padding", _ROWS)

    def round_done(self, round: RoundDone) -> None:
        """A round is over."""
        self._round.observe(round.seconds)
        self._rows.observe(round.rows)
        self._padded.observe(round.padded)
        for source, count in round.drafted.items():
            self._drafted.labels(source).inc(count)
            self._accepted.labels(source).inc(round.kept.get(source, 0))

    def stream_done(self, stream: StreamDone) -> None:
        """A stream is over, however it ended."""
        self._streams.labels(stream.reason).inc()
        self._prompt.inc(stream.prompt_tokens)
        self._cached.inc(stream.cached_tokens)
        self._reply.inc(len(stream.tokens))
        self._whole.observe(stream.seconds)

    def first_token(self, seconds: float) -> None:
        """A stream's first token reached the HTTP side."""
        self._first.observe(seconds)

    def response(self, route: str, status: int) -> None:
        """A response began."""
        self._responses.labels(route, str(status)).inc()

    def exposition(self, snapshot: Mapping[str, Any], model: str) -> bytes:
        """The text that Prometheus reads.

        Args:
            snapshot: the engine's state now.
            model: the served name, a label of vLLM's metrics.
        """
        page = CollectorRegistry()
        page.register(_Page([*self.registry.collect(), *_of_engine(snapshot)], model))
        return generate_latest(page)


class _Page(Collector):
    """Metrics under their own names and, where vLLM has one, under its."""

    def __init__(self, metrics: list[Metric], model: str) -> None:
        self._metrics = metrics
        self._model = model

    def collect(self) -> Iterable[Metric]:
        yield from self._metrics
        for metric in self._metrics:
            if metric.name in _VLLM:
                yield self._renamed(metric, _VLLM[metric.name])

    def _renamed(self, metric: Metric, name: str) -> Metric:
        other = Metric(name, metric.documentation, metric.type)
        for sample in metric.samples:
            labels = {_LABELS.get(label, label): value for label, value in sample.labels.items()}
            other.samples.append(
                sample._replace(
                    name=name + sample.name.removeprefix(metric.name), labels=labels | {"model_name": self._model}
                )
            )
        return other


def _of_engine(snapshot: Mapping[str, Any]) -> Iterable[Metric]:
    reading, decoding = snapshot.get("reading", 0), snapshot.get("decoding", 0)
    yield GaugeMetricFamily("tf:streams_running", "Streams with a lane", value=reading + decoding)
    yield GaugeMetricFamily("tf:streams_waiting", "Streams in the queue", value=snapshot.get("waiting", 0))
    yield GaugeMetricFamily("tf:lanes", "Streams at once", value=snapshot.get("parallel", 0))
    ledger, budget = snapshot.get("ledger", {}), snapshot.get("budget", 0)
    kinds = GaugeMetricFamily("tf:ledger_bytes", "Bytes in use", labels=("kind",))
    for kind, used in ledger.items():
        kinds.add_metric((kind,), used)
    yield kinds
    yield GaugeMetricFamily("tf:ledger_budget_bytes", "Bytes for everything that grows", value=budget)
    share = sum(ledger.values()) / budget if budget else 0.0
    yield GaugeMetricFamily("tf:ledger_used_ratio", "Share of the budget in use", value=share)
    failures = CounterMetricFamily("tf:proposer_failures", "Times that a proposer failed", labels=("source",))
    for source, failed in snapshot.get("failures", {}).items():
        failures.add_metric((source,), failed["count"])
    yield failures

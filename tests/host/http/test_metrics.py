from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.host.http.conftest import World
from tf_host.http import Metrics
from tf_host.settings import ServerSettings
from tf_plugins.types import RoundDone, StreamDone

SNAPSHOT = {"reading": 1, "decoding": 2, "waiting": 3, "parallel": 4, "budget": 100, "ledger": {"streams": 25}}


def values(text: str) -> dict[str, float]:
    """Sample values by name and labels."""
    return {
        sample.name + "".join(f"[{v}]" for _, v in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_rounds_and_streams_are_counted() -> None:
    metrics = Metrics()
    metrics.round_done(RoundDone(2, 5, 8, 0.03, {"copy": 3, "llama": 4}, {"copy": 2}))
    metrics.round_done(RoundDone(1, 1, 1, 0.01))
    metrics.stream_done(StreamDone("a", "stop", 10, 4, [1, 2, 3], 2, 0.5))
    metrics.stream_done(StreamDone("b", "cancelled", 10, 0, [], 0, 0.5))
    metrics.first_token(0.2)
    found = values(metrics.exposition(SNAPSHOT, "tiny").decode())
    assert found["tf:round_seconds_count"] == 2
    assert found["tf:round_rows_sum"] == 6
    assert found["tf:round_padded_rows_sum"] == 9
    assert (found["tf:drafted_tokens_total[copy]"], found["tf:accepted_tokens_total[copy]"]) == (3, 2)
    assert (found["tf:drafted_tokens_total[llama]"], found["tf:accepted_tokens_total[llama]"]) == (4, 0)
    assert (found["tf:streams_total[stop]"], found["tf:streams_total[cancelled]"]) == (1, 1)
    assert (found["tf:prompt_tokens_total"], found["tf:cached_tokens_total"]) == (20, 4)
    assert found["tf:reply_tokens_total"] == 3
    assert found["tf:first_token_seconds_sum"] == 0.2


def test_the_engine_is_shown_as_it_is_now() -> None:
    found = values(Metrics().exposition(SNAPSHOT, "tiny").decode())
    assert (found["tf:streams_running"], found["tf:streams_waiting"], found["tf:lanes"]) == (3, 3, 4)
    assert (found["tf:ledger_bytes[streams]"], found["tf:ledger_budget_bytes"]) == (25, 100)
    assert found["tf:ledger_used_ratio"] == 0.25


def test_failures_of_proposers_are_counted_by_source() -> None:
    name = "tf:proposer_failures_total"
    failed = SNAPSHOT | {"failures": {"mine": {"count": 3, "last": "propose: ValueError: x"}}}
    text = Metrics().exposition(failed, "tiny").decode()
    assert values(text)[f"{name}[mine]"] == 3
    assert "# TYPE tf:proposer_failures_total counter" in text
    assert not [found for found in values(Metrics().exposition(SNAPSHOT, "tiny").decode()) if found.startswith(name)]


def test_names_of_vllm_dashboards() -> None:
    metrics = Metrics()
    metrics.stream_done(StreamDone("a", "stop", 10, 4, [1, 2, 3], 2, 0.5))
    metrics.round_done(RoundDone(2, 5, 8, 0.03, {"copy": 3}, {"copy": 2}))
    found = values(metrics.exposition(SNAPSHOT, "tiny").decode())
    assert found["vllm:num_requests_running[tiny]"] == 3
    assert found["vllm:num_requests_waiting[tiny]"] == 3
    assert found["vllm:kv_cache_usage_perc[tiny]"] == 0.25
    assert found["vllm:request_success_total[stop][tiny]"] == 1
    assert found["vllm:generation_tokens_total[tiny]"] == 3
    assert found["vllm:spec_decode_num_accepted_tokens_total[tiny][copy]"] == 2
    assert found["vllm:e2e_request_latency_seconds_count[tiny]"] == 1


def test_requests_are_counted_by_route_and_status(world: World) -> None:
    before = values(world.client.get("/metrics").text)
    world.chat()
    world.chat(stream=True)
    world.chat(temperature=-1)
    world.client.get("/v1/models/xyz")
    world.client.get("/secret/path")
    answer = world.client.get("/metrics")
    after = values(answer.text)

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert answer.headers["content-type"].startswith("text/plain")
    assert more("tf:http_responses_total[/v1/chat/completions][200]") == 2
    assert more("tf:http_responses_total[/v1/chat/completions][400]") == 1
    assert more("tf:http_responses_total[/v1/models/{name:path}][404]") == 1
    assert more("tf:http_responses_total[other][404]") == 1
    assert more("tf:first_token_seconds_count") == 2
    assert "secret" not in answer.text


def test_what_is_answered_before_it_is_routed_is_counted(make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(api_key="k", cors=("https://good.example",)))
    key = {"Authorization": "Bearer k"}
    ask = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
    answers = [
        world.client.get("/v1/models"),
        world.client.post("/v1/completions", json={}),
        world.client.get("/v1/models", headers=key | {"Origin": "https://evil.example"}),
        world.client.options("/v1/completions", headers=ask),
        world.client.get("/v1/models", headers=key),
        world.client.get("/models/", headers=key),  # another spelling of the same route
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 403, 200, 200, 200]
    with socket.create_connection(("127.0.0.1", world.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert client.recv(4_096).startswith(b"HTTP/1.1 400 ")
    found = values(world.client.get("/metrics", headers=key).text)
    assert {name: count for name, count in found.items() if name.startswith("tf:http_responses_total")} == {
        "tf:http_responses_total[other][401]": 2,
        "tf:http_responses_total[other][403]": 1,
        "tf:http_responses_total[other][200]": 1,
        "tf:http_responses_total[other][400]": 1,
        "tf:http_responses_total[/v1/models][200]": 2,
    }


def test_a_fault_is_counted(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    monkeypatch.setattr("tf_host.http.routes.health_of", None)
    assert world.client.get("/health").status_code == 500
    assert values(world.client.get("/metrics").text)["tf:http_responses_total[/health][500]"] == 1

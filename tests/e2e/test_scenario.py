"""Streams that join, queue, leave and are refused, against each stream's plain solo run."""

from __future__ import annotations

import time

import pytest

from tests.e2e.prompts import PROMPTS
from tests.e2e.serving import Client, Parallel

pytestmark = [pytest.mark.exact, pytest.mark.slow]


def test_join_queue_leave_refuse(drafted: Client, backend: str):
    tokens = 120 if backend in ("mkl", "mkl-plain") else 56
    prompts = {"A": PROMPTS[9], "B": PROMPTS[1], "C": PROMPTS[2], "D": PROMPTS[5]}
    solo = {name: drafted.chat(p, max_tokens=tokens, draft=False, ignore_eos=True).ids for name, p in prompts.items()}
    before = drafted.health()["ledger"]

    streams = Parallel()
    a_joined: list[int] = []

    def first() -> list[int]:
        import json

        body = {
            "messages": [{"role": "user", "content": prompts["A"]}],
            "temperature": 0,
            "max_tokens": tokens,
            "ignore_eos": True,
            "return_token_ids": True,
            "stream": True,
        }
        ids: list[int] = []
        with drafted.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:]).get("choices", ()):
                        ids += choice.get("token_ids") or []
                a_joined[:] = ids
        return ids

    streams.start("A", first)
    wait_for(lambda: len(a_joined) >= 40)
    streams.start("B", drafted.stream, prompts["B"], max_tokens=tokens, ignore_eos=True)
    wait_for(lambda: drafted.health()["decoding"] + drafted.health()["reading"] == 2)
    streams.start("C", drafted.stream, prompts["C"], max_tokens=tokens, ignore_eos=True)
    wait_for(lambda: drafted.health()["waiting"] >= 1)
    streams.start("D", drafted.stream, prompts["D"], stop_after=20, max_tokens=tokens, ignore_eos=True)
    refused = drafted.complete([1] * 9_000, max_tokens=8)
    assert refused.status == 400
    assert refused.body["error"]["code"] == "context_length_exceeded"

    replies = streams.join()
    assert replies["A"] == solo["A"]
    assert replies["B"].ids == solo["B"]
    assert replies["C"].ids == solo["C"]
    assert replies["D"].ids == solo["D"][: len(replies["D"].ids)]
    assert len(replies["D"].ids) >= 20

    assert drafted.chat(prompts["A"], max_tokens=tokens, ignore_eos=True).ids == solo["A"]
    wait_for(lambda: drafted.health()["decoding"] == 0)
    after = drafted.health()["ledger"]
    assert after["streams"] == before["streams"] == 0


def wait_for(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)

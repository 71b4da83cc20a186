"""A server under mixed requests for a long time: nothing fails, grows or drifts.

``TF_SOAK_MINUTES`` says how long (30). With ``TF_SOAK_RESULT`` the result goes to that page, which ``make soak`` does.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.prompts import PROMPTS
from tests.e2e.serving import Client, serving

MINUTES = float(os.environ.get("TF_SOAK_MINUTES", "30"))
CLIENTS = 6
"""More than the four lanes, so that there is always a queue."""

WARM_SHARE = 0.25
"""Share of the time after which memory has to be flat: kept states and compiled variants fill up first."""

GROWTH = 48 << 20
"""Bytes that the server may have grown by since then."""

PROBE = {
    "messages": [{"role": "user", "content": "Name three uses of a wooden spoon."}],
    "max_tokens": 32,
    "temperature": 0.7,
    "seed": 11,
}

PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["Ann", "Bob"]}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}

BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/completions", {"prompt": "x", "max_tokens": 0}),
    ("/v1/completions", {"prompt": [1] * 9_000}),
    ("/v1/completions", {"prompt": ["a", "b"]}),
    ("/v1/chat/completions", {"messages": []}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": 5}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "temperature": "warm"}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "guided_regex": "("}),
)


@dataclass
class Tally:
    """What the clients saw."""

    kinds: Counter[str] = field(default_factory=Counter)
    whole: int = 0
    left: int = 0
    busy: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def told(self, kind: str, outcome: str, fault: str | None = None) -> None:
        with self.lock:
            self.kinds[kind] += 1
            if outcome in ("whole", "left", "busy"):
                setattr(self, outcome, getattr(self, outcome) + 1)
            if fault is not None:
                self.wrong.append(f"{kind}: {fault[:300]}")


def chat(rng: random.Random, **more: Any) -> dict[str, Any]:
    """A chat of one to three turns; half of them begin alike, so that kept states are used."""
    system = [{"role": "system", "content": "You answer in one short sentence."}] if rng.random() < 0.5 else []
    turns = [{"role": "user", "content": f"{rng.choice(PROMPTS)} ({rng.randrange(40)})"}]
    if rng.random() < 0.3:
        turns += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Say that again."}]
    body = {"max_tokens": rng.randrange(1, 40), "temperature": rng.choice((0, 0.7)), "seed": rng.randrange(1 << 40)}
    return {"messages": system + turns, **body, **more}


def whole(
    http: httpx.Client, rng: random.Random, body: dict[str, Any], check: Callable[[Any], bool]
) -> tuple[str, Any]:
    answer = http.post("/v1/chat/completions", json=body)
    if answer.status_code == 503 and "retry-after" in answer.headers:
        return "busy", None
    if answer.status_code != 200:
        return "fault", f"{answer.status_code} {answer.text}"
    reply = answer.json()
    return "whole", None if check(reply) else f"unexpected reply {reply}"


def plain(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    body = chat(rng, logprobs=rng.random() < 0.3, stop=rng.choice((None, "the", [".", "\n"])))
    return whole(http, rng, body, lambda reply: reply["usage"]["completion_tokens"] <= body["max_tokens"])


def grammar(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = chat(rng, response_format=form) | {"max_tokens": 60}

    def valid(reply: Any) -> bool:
        choice = reply["choices"][0]
        return choice["finish_reason"] == "length" or set(json.loads(choice["message"]["content"])) == {"name", "age"}

    return whole(http, rng, body, valid)


def tools(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    return whole(
        http, rng, chat(rng, tools=[TOOL]), lambda reply: reply["choices"][0]["message"]["role"] == "assistant"
    )


def bad(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    path, body = rng.choice(BAD)
    answer = http.post(path, json=body)
    fault = None if answer.status_code == 400 and answer.json()["error"]["message"] else f"{answer.status_code} {body}"
    return "refused", fault


def stream(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    return follow(http, chat(rng, stream=True), None)


def leave(http: httpx.Client, rng: random.Random) -> tuple[str, Any]:
    return follow(http, chat(rng, stream=True, ignore_eos=True) | {"max_tokens": 200}, rng.randrange(12))


def follow(http: httpx.Client, body: dict[str, Any], leaves_after: int | None) -> tuple[str, Any]:
    with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code == 503 and "retry-after" in answer.headers:
            return "busy", None
        if answer.status_code != 200:
            answer.read()
            return "fault", f"{answer.status_code} {answer.text}"
        events, last = 0, ""
        for line in answer.iter_lines():
            if line.startswith("data: "):
                if '"error"' in line[:12]:
                    return "fault", line
                events, last = events + 1, line
            if leaves_after is not None and events > leaves_after:
                return "left", None
        return "whole", None if last == "data: [DONE]" else f"ended with {last}"


KINDS = {"stream": (stream, 5), "whole": (plain, 4), "grammar": (grammar, 3), "leaves": (leave, 3), "tools": (tools, 2),
         "bad body": (bad, 3)}  # fmt: skip


def work(url: str, number: int, until: float, tally: Tally) -> None:
    """One client: a request after another, each of a kind drawn from ``KINDS``."""
    rng = random.Random(number)
    names, weights = list(KINDS), [weight for _, weight in KINDS.values()]
    with httpx.Client(base_url=url, timeout=600) as http:
        while time.monotonic() < until:
            (kind,) = rng.choices(names, weights)
            try:
                outcome, fault = KINDS[kind][0](http, rng)
            except Exception as error:
                outcome, fault = "fault", repr(error)
            tally.told(kind, outcome, fault)
            if outcome == "busy":
                time.sleep(1)


def idle(client: Client) -> dict[str, Any]:
    """Health once nothing runs."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        health = client.health()
        if health["waiting"] + health["reading"] + health["decoding"] == 0:
            return health
        time.sleep(0.1)
    raise AssertionError(f"still busy: {health}")


@pytest.fixture(scope="module")
def server(demo_folders: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    log = tmp_path_factory.mktemp("soak") / "server.log"
    flags = ("--family", "llama", "--drafter", "--parallel", "4", "--queue", "8", "--prompt-cache-gib", "0.25")
    with serving(*flags, log=log) as client:
        yield client


@pytest.mark.long
@pytest.mark.timeout(0)
def test_nothing_fails_grows_or_drifts(server: Client) -> None:
    (process,) = (one for one in psutil.Process().children() if server.url.rpartition(":")[2] in one.cmdline())
    probes = [server.post("/v1/chat/completions", **PROBE).tf["token_sha"]]
    start, began = idle(server), time.monotonic()
    until = began + MINUTES * 60
    tally = Tally()
    threads = [threading.Thread(target=work, args=(server.url, k, until, tally)) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    memory: list[tuple[float, int]] = []
    for tick in itertools.count():
        if (now := time.monotonic()) >= until:
            break
        memory.append((now, process.memory_info().rss))
        if tick % 6 == 0:
            reply = server.post("/v1/chat/completions", **PROBE)
            if reply.status == 200:
                probes.append(reply.tf["token_sha"])
        time.sleep(max(0.0, min(5.0, until - time.monotonic())))
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    probes.append(server.post("/v1/chat/completions", **PROBE).tf["token_sha"])
    end = idle(server)
    warm = [rss for at, rss in memory if at - began >= WARM_SHARE * (until - began)]
    half = len(warm) // 2
    # Of the two halves after it is warm: single samples swing with the prompts that happen to be read.
    before, after = statistics.median(warm[:half]), statistics.median(warm[half:])
    finished = {key: end["finished"].get(key, 0) - start["finished"].get(key, 0) for key in end["finished"]}

    drafted, kept = sum(end["drafted"].values()), sum(end["kept"].values())
    facts = {
        "minutes": f"{(time.monotonic() - began) / 60:.1f}",
        "requests": f"{sum(tally.kinds.values()):,}: "
        + ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.kinds.items())),
        "whole replies, clients that left, told to come back": f"{tally.whole:,}, {tally.left:,}, {tally.busy:,}",
        "unexpected answers": str(len(tally.wrong)),
        "reply tokens, rounds": f"{end['tokens']:,}, {end['rounds']:,}",
        "drafts kept": f"{kept:,} of {drafted:,} ({kept / max(drafted, 1):.0%})",
        "resident memory in the middle and at the end (medians)": f"{before / (1 << 20):,.0f} MiB, "
        f"{after / (1 << 20):,.0f} MiB",
        "the probe's replies, different ones": f"{len(probes)}, {len(set(probes))}",
    }
    print("\n" + "\n".join(f"{name}: {value}" for name, value in facts.items()))
    if page := os.environ.get("TF_SOAK_RESULT"):
        write(Path(page), facts)

    assert tally.wrong == []
    assert all(tally.kinds[kind] for kind in KINDS)
    assert len(set(probes)) == 1
    assert after - before <= GROWTH
    # Every request that was let in ended once; one whose client leaves may be done before that is noticed.
    assert finished.get("error", 0) == 0
    assert finished["stop"] + finished["length"] >= tally.whole
    assert sum(finished.values()) == tally.whole + tally.left + len(probes) - 1
    assert kept <= drafted
    assert all(end["kept"][source] <= end["drafted"][source] for source in end["kept"])
    for kind in ("streams", "drafter caches"):
        assert end["ledger"][kind] == start["ledger"][kind] == 0
    assert sum(end["ledger"].values()) <= end["budget"]
    assert end["last_error"] is None


def write(page: Path, facts: dict[str, str]) -> None:
    """The result as a page of the docs."""
    lines = [
        "# Soak",
        "",
        "Six clients ask the demo pair at `--parallel 4 --queue 8` for streams, whole replies, replies to a JSON",
        "schema and replies with tools, send bad bodies, and leave midway. A fixed prompt with a fixed seed is asked",
        "again and again in between. `make soak` runs it and writes this page.",
        "",
        f"Last run: {date.today():%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"mlx {version('mlx')}.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in facts.items()),
        "",
    ]
    page.write_text("\n".join(lines), encoding="utf-8")

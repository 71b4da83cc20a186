"""Kept prompts and the budget, through HTTP on the demo pair."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.serving import Client, Reply, serving

MIB = 1 << 20
GRID = 64
"""A chunk of the prompt plan on a CPU."""


# Turns: resumed, cold, and restarted from disk.


@dataclass(frozen=True)
class Size:
    turns: int
    lines: int
    reply: int


SHORT, LONG = Size(4, 9, 12), Size(8, 21, 24)
"""The long chat has turns of 400 tokens or more."""


@pytest.fixture(params=[SHORT, pytest.param(LONG, marks=pytest.mark.long)], ids=["short", "long"])
def size(request: pytest.FixtureRequest, backend: str) -> Size:
    """MLX's own matrix products read a few rows a second, so they get the shortest chat."""
    return Size(2, 5, 6) if backend not in ("mkl", "mkl-plain") and request.param is SHORT else request.param


def says(turn: int, lines: int) -> str:
    """A user's message, different in every turn and line."""
    rng = random.Random(turn)
    things = ("a lamp", "the old map", "two keys", "a red boat", "his letter", "the clock")
    places = ("under the stairs", "in the harbour", "behind the mill", "at the station", "near the well")
    return "\n".join(
        f"Note {turn}.{line}: someone left {rng.choice(things)} {rng.choice(places)} at {rng.randrange(1, 12)} o'clock."
        for line in range(lines)
    )


def take_turns(client: Client, size: Size, first: int, messages: list[dict[str, str]]) -> list[Reply]:
    """Play the turns from ``first`` on; ``messages`` grows by them."""
    replies = []
    for turn in range(first, size.turns):
        messages.append({"role": "user", "content": says(turn, size.lines)})
        reply = client.chat(messages, max_tokens=size.reply, ignore_eos=True)
        assert reply.status == 200, reply.body
        messages.append({"role": "assistant", "content": reply.text})
        replies.append(reply)
    return replies


def read(reply: Reply) -> tuple[int, int]:
    """Prompt tokens, and how many came from a kept state."""
    usage = reply.body["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


SYSTEM = {"role": "system", "content": "You answer in one short sentence."}


@pytest.mark.exact
@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_turns_resumed_cold_and_restarted_are_the_same(
    demo_folders: object, tmp_path: Path, logs: Path, size: Size
) -> None:
    flags = ("--family", "llama", "--drafter", "--parallel", "2")
    half = size.turns // 2
    messages: list[dict[str, str]] = [SYSTEM]
    with serving(*flags, "--prompt-cache-dir", str(tmp_path), log=logs / "turns.log") as client:
        resumed = take_turns(client, size, 0, messages)
        edited = [*messages[:-2], {"role": "user", "content": "Instead, name the place of the first note."}]
        edit = client.chat(edited, max_tokens=size.reply, ignore_eos=True)
    with serving(*flags, "--prompt-cache-gib", "0", log=logs / "cold.log") as client:
        cold_messages: list[dict[str, str]] = [SYSTEM]
        cold = take_turns(client, size, 0, cold_messages)
        cold_edit = client.chat(edited, max_tokens=size.reply, ignore_eos=True)
        assert client.health()["ledger"]["prompt states"] == 0
    with serving(*flags, "--prompt-cache-dir", str(tmp_path), log=logs / "restarted.log") as client:
        restarted = take_turns(client, size, half, messages[: 1 + 2 * half])

    print("\nturn  prompt  cached    read")
    for turn, reply in enumerate(resumed):
        prompt, cached = read(reply)
        print(f"{turn + 1:4d}  {prompt:6d}  {cached:6d}  {prompt - cached:6d}")
    print(f"edit  {read(edit)[0]:6d}  {read(edit)[1]:6d}")

    assert [reply.ids for reply in resumed] == [reply.ids for reply in cold]
    assert [reply.ids for reply in restarted] == [reply.ids for reply in cold[half:]]
    assert edit.ids == cold_edit.ids
    assert [read(reply)[1] for reply in [*cold, cold_edit]] == [0] * (size.turns + 1)
    assert read(restarted[0])[1] >= read(resumed[half])[1], "the first turn after the restart resumes"
    for before, reply in itertools.pairwise(resumed):
        (prompt_before, _), (prompt, cached) = read(before), read(reply)
        # What is new since the last prompt, the previous reply among it, and at most one chunk.
        assert prompt - cached <= prompt - prompt_before + GRID
        if size is LONG:
            assert prompt - prompt_before >= 400
    # The edit resumes at the last chunk start before the edited message.
    begins = read(resumed[-2])[0] + size.reply
    assert read(edit)[1] >= begins // GRID * GRID - GRID


# Load: many clients, a small budget.


@dataclass(frozen=True)
class Job:
    """One request of the load: its body, and after how many tokens its client leaves."""

    number: int
    body: dict[str, Any]
    leaves_after: int | None


@dataclass
class Tally:
    """What the clients saw."""

    replies: dict[int, list[int]] = field(default_factory=dict)
    left: int = 0
    busy: int = 0
    wrong: list[str] = field(default_factory=list)


def jobs(count: int, seed: int = 5) -> list[Job]:
    rng = random.Random(seed)
    starts = [[rng.randrange(300, 4_000) for _ in range(150)] for _ in range(6)]
    made = []
    for number in range(count):
        shared = rng.choice(starts)[: rng.randrange(1, 150)] if rng.random() < 0.5 else []
        prompt = shared + [rng.randrange(300, 4_000) for _ in range(rng.randrange(1, 60))]
        body = {
            "prompt": prompt,
            "max_tokens": rng.randrange(1, 48),
            "temperature": rng.choice((0, 0.7)),
            "seed": number,
            "return_token_ids": True,
        }
        leaves = rng.choice((None, None, None, None, 0, rng.randrange(1, 20)))
        made.append(Job(number, body, leaves))
    return made


def serve(url: str, work: Iterator[Job], lock: threading.Lock, tally: Tally) -> None:
    """One client: a job after another; told to come back later, it does."""
    with httpx.Client(base_url=url, timeout=600) as http:
        while True:
            with lock:
                job = next(work, None)
            if job is None:
                return
            while not attempt(http, job, tally):
                time.sleep(0.2)


def attempt(http: httpx.Client, job: Job, tally: Tally) -> bool:
    """Send a job once; whether it is over."""
    streamed = job.leaves_after is not None
    with http.stream("POST", "/v1/completions", json={**job.body, "stream": streamed}) as answer:
        if answer.status_code == 503:
            tally.busy += 1
            if "retry-after" not in answer.headers:
                tally.wrong.append(f"{job.number}: 503 without Retry-After")
            return False
        if answer.status_code != 200:
            answer.read()
            tally.wrong.append(f"{job.number}: {answer.status_code} {answer.text[:200]}")
            return True
        if not streamed:
            answer.read()
            tally.replies[job.number] = answer.json()["choices"][0]["token_ids"]
            return True
        events = 0
        for line in answer.iter_lines():
            events += line.startswith("data: {")
            if events > (job.leaves_after or 0):
                break
        tally.left += 1
        return True


def run_load(url: str, work: list[Job], clients: int = 16) -> Tally:
    tally, lock, left = Tally(), threading.Lock(), iter(work)
    threads = [threading.Thread(target=serve, args=(url, left, lock, tally)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def idle(client: Client) -> dict[str, Any]:
    """Health once nothing runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        health = client.health()
        if health["waiting"] + health["reading"] + health["decoding"] == 0:
            return health
        time.sleep(0.1)
    raise AssertionError(f"still busy: {health}")


def resident(url: str) -> int:
    """Resident bytes of the server at ``url``."""
    port = url.rpartition(":")[2]
    (process,) = (one for one in psutil.Process().children() if port in one.cmdline())
    return int(process.memory_info().rss)


CONTEXT = 1_024


def one_stream(logs: Path) -> int:
    """Bytes of a stream of ``CONTEXT`` tokens, from the refusal of a server that has no room for it."""
    log = logs / "refused.log"
    with pytest.raises(AssertionError, match="did not start"):
        serving("--drafter", "--context", str(CONTEXT), "--memory-gib", "0.65", log=log).__enter__()
    found = re.search(r"takes ([\d.]+) MiB", log.read_text())
    assert found is not None, log.read_text()
    return int((float(found[1]) + 0.1) * MIB)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_load_against_a_budget_of_two_streams(demo_folders: object, tmp_path: Path, logs: Path) -> None:
    stream = one_stream(logs)
    flags = ("--drafter", "--context", str(CONTEXT), "--parallel", "4", "--queue", "8", "--memory-gib", "4")
    table = tmp_path / "settings.toml"
    table.write_text("[plugins.llama-budget]\nreserve_gib = 0\n")
    with serving(*flags, "--settings", str(table), log=logs / "sizing.log") as client:
        spare = client.health()["budget"] - int(1.03 * stream)
    # Of 4 GiB, weights and this reserve leave one stream of 1,024 tokens, which is two of up to 512.
    table.write_text(f"[plugins.llama-budget]\nreserve_gib = {spare / (1 << 30):.9f}\n")
    with serving(*flags, "--settings", str(table), log=logs / "load.log") as client:
        work = jobs(500)
        run_load(client.url, work[:50])  # warm
        baseline = idle(client)
        first = run_load(client.url, work[50:275])
        idle(client)
        middle = resident(client.url)
        second = run_load(client.url, work[275:])
        after = idle(client)
        end = resident(client.url)
        print(
            f"\nbudget {baseline['budget'] / MIB:.0f} MiB, {len(first.replies) + len(second.replies)} replies, "
            f"{first.left + second.left} clients left, {first.busy + second.busy} times 503, "
            f"resident {middle / MIB:.0f} -> {end / MIB:.0f} MiB, ledger {after['ledger']}"
        )
        assert first.wrong == second.wrong == []
        assert first.busy + second.busy > 0
        assert abs(end - middle) <= 32 * MIB
        for health in (baseline, after):
            assert health["ledger"]["streams"] == health["ledger"]["drafter caches"] == 0
            assert sum(health["ledger"].values()) <= health["budget"]
        replies = first.replies | second.replies
        for number in sorted(replies)[:: max(1, len(replies) // 40)][:40]:
            solo = client.post("/v1/completions", **{**work[number].body, "draft": False})
            assert solo.ids == replies[number], number

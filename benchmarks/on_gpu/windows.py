"""Windows on servers, through ``tf-bench``'s own client, each recorded as it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.on_gpu.results import Sink, left
from benchmarks.servers import Server
from tf_host.bench.client import Client
from tf_host.bench.prompts import Prompt, load_prompts
from tf_host.bench.reply import Reply
from tf_host.bench.report import cell_record, window_record
from tf_host.bench.summary import summarise
from tf_host.bench.windows import Plan, Window, run

CHOSEN = (
    "chat-sleep",
    "chat-bees",
    "code-fizz",
    "list-camping",
    "chat-remote",
    "copy-meeting",
    "chat-interview",
    "chat-compare",
)
"""Chat prompts, code and copying among them, in the order that they are used."""


def prompts(count: int = len(CHOSEN)) -> tuple[Prompt, ...]:
    """The first ``count`` of the chosen prompts."""
    by_id = {prompt.id: prompt for prompt in load_prompts(Path(__file__).resolve().parents[1] / "prompts.jsonl")}
    return tuple(by_id[name] for name in CHOSEN[:count])


class Undrafted(Client):
    """A server asked for plain replies."""

    async def send(self, *args: Any, more: Mapping[str, Any] | None = None, **named: Any) -> Reply:
        return await super().send(*args, more={**(more or {}), "draft": False}, **named)


def client(server: Server, url: str) -> Client:
    """The client of a server, by its label: one called ``plain`` asks for undrafted replies."""
    kind = Undrafted if server.label.startswith("plain") else Client
    return kind(url, label=server.label, model=server.model)


async def collect(sink: Sink, plan: Plan, servers: Sequence[Server], urls: Sequence[str], **fields: Any) -> None:
    """Run the plan on all servers in turn and record every window; stops early when the stage's time is up."""
    clients = [client(server, url) for server, url in zip(servers, urls, strict=True)]
    steps: list[tuple[Window, ...]] = []
    try:
        for one in clients:
            await one.greet()
        async for windows in run(plan, clients):
            steps.append(windows)
            for window in windows:
                record = window_record(window) | {"same": windows[0].same(window)}
                del record["kind"]
                sink.write("window", **record, **fields)
            if left() < 3 * max(window.seconds for window in windows):
                sink.write("cut", reason="the stage's time is up", steps=len(steps), of=len(plan.steps), **fields)
                break
    finally:
        for one in clients:
            await one.close()
    for cell in summarise(steps):
        record = cell_record(cell)
        del record["kind"]
        sink.write("cell", **record, **fields)

"""Whole replies, through lanes of their own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.inprocess.rounds import ms, text
from benchmarks.on_gpu.results import Sink, left
from benchmarks.on_gpu.windows import prompts
from tf_host.requests import Done, Event, Failed, GenerateRequest, Sampling

__all__ = ["Client", "Watch", "make_lanes", "oracle", "reply", "spread"]


class Client:
    """Remembers how a reply ended."""

    def __init__(self) -> None:
        self.cancelled = False
        self.last: Done | Failed | None = None

    def send(self, event: Event) -> None:
        if isinstance(event, Done | Failed):
            self.last = event


class Watch:
    """Keeps what every round took."""

    def __init__(self) -> None:
        self.rounds: list[Any] = []

    def round_done(self, round: Any) -> None:
        self.rounds.append(round)

    def stream_done(self, stream: Any) -> None:
        return


def make_lanes(composed: Any, depths: Any, watch: Watch) -> Any:
    from tf_host.lanes import Lanes
    from tf_host.sampling import Drawer

    drawer = Drawer(composed.text.vocab, composed.target.vocab)
    return Lanes(
        composed.model,
        composed.plan,
        drawer,
        composed.admission,
        proposers=composed.proposers,
        depths=depths,
        observers=(watch,),
    )


def reply(
    composed: Any, lanes: Any, prompt: Sequence[int], tokens: int, temperature: float = 0.0
) -> tuple[Done, float]:
    """One reply alone, and the seconds that it took, prompt included."""
    client = Client()
    request = GenerateRequest(
        id="bench",
        prompt=tuple(prompt),
        sampling=Sampling(seed=1, temperature=temperature),
        max_tokens=tokens,
        end_ids=composed.text.end_ids,
        reader=composed.text.reader(),
    )
    began = time.perf_counter()
    lanes.submit(request, client)
    while lanes.step():
        pass
    seconds = time.perf_counter() - began
    if not isinstance(client.last, Done):
        raise RuntimeError(f"the reply failed: {client.last}")
    return client.last, seconds


def spread(sink: Sink, composed: Any, tokens: int) -> None:
    """Every round of a reply at two places, plain, drafted, and with alternatives where the target takes any.

    None may take more than twice its median after the warm-up, and all replies of a place are equal.
    """
    from tf_host.lanes import FixedDepths

    ways = {"plain": FixedDepths(0), "depth 5": FixedDepths(5), "8 and 7": FixedDepths(8, beside=(3, 2, 1, 1))}
    for place in (500, 16_000):
        if place + tokens > composed.plan.context:
            continue
        first: tuple[int, ...] = ()
        for name, depths in ways.items():
            watch = Watch()
            lanes = make_lanes(composed, depths, watch)
            prompt = text(composed, place)
            done, seconds = reply(composed, lanes, prompt, tokens)
            first = first or done.tokens
            position = place
            by_bucket: dict[int, list[float]] = {}
            for one in watch.rounds:
                by_bucket.setdefault(composed.plan.bucket(position - 1), []).append(ms(one.seconds))
                position += 1 + sum(one.kept.values())
            worst = {
                bucket: round(max(times) / statistics.median(times), 2) for bucket, times in by_bucket.items() if times
            }
            sink.write(
                "spread",
                at=place,
                way=name,
                tokens=len(done.tokens),
                same=done.tokens == first,
                seconds=round(seconds, 3),
                prompt_s=round(done.prompt_s, 3),
                decode_s=round(done.decode_s, 3),
                worst_over_median=worst,
                rounds_ms=[ms(one.seconds) for one in watch.rounds],
                # The drafter reads the prompt in the round that it is first asked in.
                drafter_first=next((at for at, one in enumerate(watch.rounds) if "drafter" in one.drafted), None),
            )


def oracle(
    sink: Sink,
    composed: Any,
    tokens: int,
    count: int,
    depths: Sequence[int],
    temperatures: Sequence[float] = (0.0, 0.7),
    beside: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> None:
    """Each prompt at every fixed depth and as priced, in turn; the prompts' order of ways alternates.

    ``beside`` has depths with alternatives: how many are verified in each place.
    """
    from tf_host.lanes import FixedDepths

    watch = Watch()
    ways: dict[str, Any] = {f"depth {depth}": make_lanes(composed, FixedDepths(depth), watch) for depth in depths}
    for depth, alternatives in beside.items():
        name = f"depth {depth}, {sum(alternatives)} beside"
        ways[name] = make_lanes(composed, FixedDepths(depth, beside=alternatives), watch)
    ways["priced"] = composed.lanes
    for temperature in temperatures:
        for number, prompt in enumerate(prompts(count)):
            ids = list(composed.text.chat(list(prompt.body(900 + number)["messages"])).ids)
            first: tuple[int, ...] | None = None
            for name in ways if number % 2 == 0 else reversed(ways):
                if left() < 12:
                    sink.write("cut", reason="the stage's time is up", temperature=temperature, prompt=prompt.id)
                    return
                done, seconds = reply(composed, ways[name], ids, tokens, temperature)
                first = first or done.tokens
                sink.write(
                    "oracle",
                    way=name,
                    prompt=prompt.id,
                    temperature=temperature,
                    tokens=len(done.tokens),
                    rounds=done.rounds,
                    seconds=round(seconds, 4),
                    decode_s=round(done.decode_s, 4),
                    drafted=dict(done.drafted),
                    kept=dict(done.kept),
                    equal=done.tokens == first,
                )

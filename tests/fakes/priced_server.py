"""A server's rounds with made-up costs and drafts: tokens a second of a depth rule, without a model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tf_host.lanes.depths import NEITHER, Depths, DraftSample, Offer, Outcome, RoundSample, StreamView
from tf_plugins.rows import RowPlan
from tf_plugins.types import Costs

PLAN = RowPlan.for_device("cpu", 8_192, widths=tuple(range(1, 17)), tile=16)


@dataclass
class Reply:
    """One request: how long its prompt is, and whether each token of its reply is one that the drafter gives.

    ``sure``: the probabilities that it gives the drafts of a chain that begins at each token, where it gives any.
    """

    agrees: Sequence[bool]
    prompt: int = 100
    temperature: float = 0.0
    limit: int | None = None
    sure: Sequence[Sequence[float]] = ()


@dataclass
class Drafter:
    """A proposer's costs: what it takes, and what it says it takes."""

    step: float = 0.01
    batch: float = 0.0
    read: float = 0.0
    reports: Costs = field(default_factory=Costs)
    answers: float = 1.0
    name: str = "drafter"
    label: str = "a drafter"

    def costs(self) -> Costs:
        return self.reports


@dataclass
class Stream:
    id: int
    reply: Reply
    done: int = 0
    read: int = 0


@dataclass
class Result:
    tokens: int = 0
    seconds: float = 0.0
    rounds: int = 0
    drafted: int = 0
    kept: int = 0
    depths: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def serve(
    depths: Depths,
    replies: Sequence[Reply],
    cost: Callable[[int, int], float],
    drafter: Drafter,
    *,
    parallel: int = 1,
    plan: RowPlan = PLAN,
    noise: float = 0.0,
    seed: int = 0,
    first_id: int = 0,
) -> Result:
    """Serve the replies, ``parallel`` at a time, with one drafter.

    Args:
        cost: seconds of a round of that many padded rows at that bucket.
        noise: standard deviation of a measured time, as a share of it.
    """
    rng, result = random.Random(seed), Result()
    waiting = [Stream(first_id + i, reply, read=0) for i, reply in enumerate(replies)]
    running: list[Stream] = []
    while waiting or running:
        while waiting and len(running) < parallel:
            running.append(waiting.pop(0))
        views = [_view(stream, plan) for stream in running]
        most = depths.plan(views)
        asked = {v.id: d for v in views if (d := min(most.get(v.id, 0), depths.choose(v, 0) if most else 0)) > 0}
        offered: dict[int, int] = {}
        sure: dict[int, Sequence[float]] = {}
        if asked:
            unread = sum(v.unread[0] for v in views if v.id in asked)
            sure = {
                s.id: _sure(s, asked[s.id], depths.least(v, 0))
                for s, v in zip(running, views, strict=True)
                if s.id in asked
            }
            asked = {i: len(sure[i]) or d for i, d in asked.items()}
            offered = {i: d if rng.random() < drafter.answers else 0 for i, d in asked.items()}
            deepest, drafts = max(asked.values()), sum(asked.values())
            seconds = drafter.step * deepest + drafter.batch * (drafts - deepest) + drafter.read * unread
            seconds *= max(0.1, rng.gauss(1, noise))
            result.seconds += seconds
            for stream in running:
                if stream.id in asked:
                    stream.read = stream.reply.prompt + stream.done + 1
            depths.record_draft(
                DraftSample(0, tuple(_offer(i, tokens, sure) for i, tokens in offered.items()), unread, seconds)
            )
        trimmed = depths.trim([_offer(i, tokens, sure) for i, tokens in offered.items() if tokens])
        sent = {i: trimmed[i].tokens if i in trimmed else tokens for i, tokens in offered.items()}
        rows = sum(1 + sent.get(stream.id, 0) for stream in running)
        full, rest = divmod(rows, plan.top)
        padded = (plan.top,) * full + ((plan.padded(rest),) if rest else ())
        bucket = max(plan.bucket(v.context - 1) for v in views)
        seconds = sum(cost(width, bucket) for width in padded) * max(0.1, rng.gauss(1, noise))
        result.seconds += seconds
        result.rounds += 1
        outcomes = []
        for stream in running:
            drafts = sent.get(stream.id, 0)
            ahead = stream.reply.agrees[stream.done : stream.done + drafts]
            kept = next((i for i, agreed in enumerate(ahead) if not agreed), len(ahead))
            landed = min(kept + 1, len(stream.reply.agrees) - stream.done)
            context = stream.reply.prompt + stream.done + 1
            proposer = 0 if offered.get(stream.id) else None
            at, there = stream.done + kept, kept < min(offered.get(stream.id, 0), landed)
            own = (0 if stream.reply.agrees[at] else NEITHER) if there else None
            outcomes.append(Outcome(stream.id, context, proposer, drafts, kept, next=own))
            stream.done += landed
            result.tokens += landed
            result.drafted += drafts
            result.kept += kept
            result.depths.append(drafts)
        depths.record_round(RoundSample(rows, padded, seconds, tuple(outcomes)))
        for stream in [stream for stream in running if stream.done == len(stream.reply.agrees)]:
            running.remove(stream)
            depths.forget(stream.id)
    return result


def _sure(stream: Stream, most: int, least: float) -> Sequence[float]:
    """The probabilities of one answer's drafts, up to the first that makes all of them less likely than ``least``."""
    if not stream.reply.sure:
        return ()
    found, stands = [], 1.0
    for probability in stream.reply.sure[stream.done][:most]:
        if stands < least:
            break
        found.append(probability)
        stands *= probability
    return found


def _offer(stream: int, tokens: int, sure: Mapping[int, Sequence[float]]) -> Offer:
    known = sure.get(stream, ())[:tokens]
    return Offer(stream, 0, tokens, probabilities=tuple((probability,) for probability in known))


def _view(stream: Stream, plan: RowPlan) -> StreamView:
    context = stream.reply.prompt + stream.done + 1
    left = (stream.reply.limit or len(stream.reply.agrees)) - stream.done
    most = min(plan.room(context - 1) - 1, plan.top - 1, left - 1, 15)
    return StreamView(
        id=stream.id,
        context=context,
        prompt=stream.reply.prompt,
        left=left,
        most=most,
        temperature=stream.reply.temperature,
        unread=(max(0, context - stream.read),),
    )

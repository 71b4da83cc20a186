"""Plugins that pass the kit, for controls to break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from tf_plugins import Plugin, Refused, hookimpl
from tf_plugins.types import (
    Admission,
    Costs,
    Demand,
    Draft,
    DraftRequest,
    Growth,
    Outcome,
    Proposer,
    Refusal,
    RequestFacts,
    Resources,
    RoundDone,
    StartFacts,
    StreamDone,
    TargetFacts,
)


class EchoSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int = Field(4, description="tokens to repeat")


class Echo:
    """Proposes the context's last ``width`` tokens again, and keeps the memory of a stream that ended."""

    name = "echo"
    label = "echoes"

    def __init__(self, width: int = 4) -> None:
        self.width = width
        self.streams: dict[int, list[int]] = {}
        self.ended: list[list[int]] = []

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        return Growth(new=8 * tokens)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        self.streams[stream] = list(context)

    def unread(self, stream: int, length: int) -> int:
        return max(0, length - len(self.streams[stream]))

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Draft | None]:
        return [self.one(request) for request in requests]

    def one(self, request: DraftRequest) -> Draft | None:
        self.streams[request.stream] = list(request.context)
        tokens: list[int] = []
        for token in request.context[-self.width :][: request.most]:
            tokens.append(token)
            if token in request.end_ids:
                break
        return Draft(tuple(tokens)) if tokens else None

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        return None

    def close(self, stream: int) -> None:
        self.ended.append(self.streams.pop(stream))

    def kept(self) -> int:
        return sum(8 * len(tokens) for tokens in self.ended)

    def shed(self, room: int) -> int:
        before = self.kept()
        while self.kept() > room:
            self.ended.pop(0)
        return before - self.kept()

    def costs(self) -> Costs:
        return Costs(step=1e-6)

    def release(self) -> None:
        self.streams.clear()
        self.ended.clear()


class Unsure(Echo):
    """Takes every token of its drafts for 0.6 likely, has another one beside the first, and ends where it may."""

    name = "unsure"

    def one(self, request: DraftRequest) -> Draft | None:
        draft = super().one(request)
        if draft is None:
            return None
        tokens = draft.tokens[: next((n for n in range(1, 16) if 0.6**n < request.least), 15)]
        others = ((tokens[0] + 1) % 256,) if request.alternatives else ()
        known = ((0.6, *(0.2 for _ in others)), *((0.6,) for _ in tokens[1:]))
        return Draft(tokens, (others,), known)


class EchoPlugin(Plugin):
    api_version = 1
    Settings = EchoSettings
    proposer: type[Echo] = Echo

    @hookimpl
    def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
        return (self.proposer(self.settings.width),)


class UnsurePlugin(EchoPlugin):
    proposer = Unsure


class Ledger:
    """An admission that sheds and trims everything when it is short."""

    def __init__(self, resources: Resources) -> None:
        self.budget = (resources.limit or resources.memory) - resources.weights
        self.parallel = resources.parallel or 4
        self.resources = resources
        self.streams: dict[int, tuple[int, int]] = {}
        self.reserved: dict[int, list[int]] = {}

    def kept(self) -> int:
        return sum(proposer.kept() for proposer in self.resources.shedding.values())

    def taken(self) -> int:
        return sum(cache + drafts for cache, drafts in self.streams.values())

    def promised(self) -> int:
        return sum(map(sum, self.reserved.values()))

    def peak(self, demand: Demand) -> int:
        return demand.cache + sum(growth.new + growth.copy for growth in demand.growth().values())

    def never(self, demand: Demand) -> Refusal | None:
        if self.resources.bytes_for(demand.tokens) <= self.budget:
            return None
        return Refusal("too_long", f"{demand.tokens} tokens do not fit the budget", "ask for fewer")

    def admit(self, demand: Demand) -> bool:
        if len(self.streams) >= self.parallel:
            return False
        if self.taken() + self.resources.bytes_for(demand.tokens) > self.budget:
            return False
        if self.taken() + self.kept() + self.peak(demand) > self.budget:
            for proposer in self.resources.shedding.values():
                proposer.shed(0)
        growth, kept = demand.growth(), self.kept()
        room = self.budget - self.taken() - kept - self.peak(demand)
        restore = demand.restore
        if restore is not None and demand.restore_bytes > room:
            self.resources.states.drop(restore)
            restore = None
        self.reserved.clear()
        self.resources.states.trim(room, restore)
        demand.allocate(restore)
        reused = kept - self.kept() if not any(one.new for one in growth.values()) else 0
        self.streams[demand.stream] = (demand.cache, sum(one.new for one in growth.values()) + reused)
        self.reserve(demand)
        return True

    def reserve(self, demand: Demand) -> None:
        room = self.budget - self.taken() - self.kept() - self.resources.states.nbytes()
        if self.resources.states_limit is not None:
            room = min(room, self.resources.states_limit - self.resources.states.nbytes())
        own = self.reserved.setdefault(demand.stream, [])
        for nbytes in demand.keep:
            if sum(own) + nbytes <= room:
                own.append(nbytes)

    def keep(self, stream: int, nbytes: int) -> bool:
        if nbytes not in self.reserved.get(stream, ()):
            return False
        self.reserved[stream].remove(nbytes)
        return True

    def release(self, stream: int) -> None:
        self.streams.pop(stream, None)
        self.reserved.pop(stream, None)

    def used(self) -> Mapping[str, int]:
        return {"streams": self.taken(), "kept": self.kept(), "states": self.resources.states.nbytes()}


class LedgerPlugin(Plugin):
    api_version = 1
    ledger: type[Ledger] = Ledger

    @hookimpl
    def admission(self, resources: Resources) -> Admission:
        if resources.memory - resources.weights < resources.stream_bytes:
            raise Refused(Refusal("memory", "one stream does not fit", "a context of 100 tokens would"))
        return self.ledger(resources)


class NoVerse(Plugin):
    """Refuses requests for verses, and starts with more than eight streams."""

    api_version = 1

    @hookimpl
    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        if "verse" in str(request.body.get("messages", "")):
            return Refusal("no_verse", "this server writes no verse", "ask for prose", status=422)
        return None

    @hookimpl
    def refuse_start(self, start: StartFacts) -> Refusal | None:
        if start.parallel is not None and start.parallel > 8:
            return Refusal("crowded", f"--parallel {start.parallel} is more than 8", "use --parallel 8")
        return None


class Counter(Plugin):
    """Counts."""

    api_version = 1

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        self.tokens = 0

    @hookimpl
    def round_done(self, round: RoundDone) -> None:
        self.tokens += round.rows / max(1, round.padded)

    @hookimpl
    def stream_done(self, stream: StreamDone) -> None:
        self.tokens += len(stream.tokens)


class FewerProposers(Plugin):
    """Takes no parameter of its hook, and has another name for the method."""

    api_version = 1

    @hookimpl(specname="proposers")
    def mine(self) -> Sequence[Proposer]:
        return (Echo(),)


class RenamedAdmission(Plugin):
    """The good ledger, by a method with a name of its own."""

    api_version = 1

    @hookimpl(specname="admission")
    def own(self, resources: Resources) -> Admission:
        made: Admission = LedgerPlugin(None).admission(resources)
        return made


class FewerRefusals(Plugin):
    """Refuses every request and every start, unseen."""

    api_version = 1

    @hookimpl
    def refuse_request(self) -> Refusal:
        return Refusal("closed", "this server is closed", "come again tomorrow", status=503)

    @hookimpl
    def refuse_start(self) -> Refusal:
        return Refusal("closed", "this server is closed", "start it tomorrow")


class FewerEvents(Plugin):
    """Counts, and looks at nothing."""

    api_version = 1
    rounds = 0

    @hookimpl
    def round_done(self) -> None:
        self.rounds += 1

    @hookimpl(specname="stream_done")
    def end(self) -> None:
        self.rounds = 0


class Buffered(Echo):
    """Has room for a stream's ``tokens`` positions and not for one more."""

    name = "buffered"

    def __init__(self, width: int = 4) -> None:
        super().__init__(width)
        self.rooms: dict[int, int] = {}

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        assert len(context) <= tokens
        return super().growth(context, tokens)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        assert len(context) < tokens <= self.longest
        self.rooms[stream] = tokens
        super().open(stream, context, tokens)

    def unread(self, stream: int, length: int) -> int:
        assert length <= self.rooms[stream]
        return super().unread(stream, length)

    def one(self, request: DraftRequest) -> Draft | None:
        assert request.position + request.most <= self.rooms[request.stream]
        return super().one(request)

    longest = 0


class BufferedPlugin(EchoPlugin):
    proposer = Buffered

    @hookimpl
    def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
        made = Buffered(self.settings.width)
        made.longest = target.context
        return (made,)

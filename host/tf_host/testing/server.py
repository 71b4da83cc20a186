"""A server of the model of bytes, inside the test's own process."""

from __future__ import annotations

import codecs
import itertools
import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from tf_host.lanes import EngineThread, FixedDepths, Lanes
from tf_host.lanes.depths import MOST_ALTERNATIVES, MOST_DRAFTS, StreamView
from tf_host.plugins import Found, LoadedPlugin, Plugins
from tf_host.plugins.checks import checked
from tf_host.plugins.tables import parse
from tf_host.prompts import PromptStore
from tf_host.requests import Delta, Done, Event, Failed, GenerateRequest, Sampling
from tf_host.sampling import Drawer
from tf_host.start.fencing import fenced
from tf_host.testing.family import END, VOCAB, BytesPlugin, byte_checkpoint
from tf_host.testing.model import ByteModel
from tf_plugins import ENTRY_POINT_GROUP, Plugin
from tf_plugins.rows import RowPlan
from tf_plugins.testing.engine import Reply
from tf_plugins.types import Device, Proposer, Refusal, RequestFacts, Resources, TargetFacts

PLAN = RowPlan(
    widths=(2, 4, 8, 16),
    tile=4,
    context=1_024,
    edges=tuple(range(64, 1_025, 64)),
    rungs=(128, 256, 512, 1_024),
    grid=16,
    chunk_rows=(4, 16),
)
"""A plan in small: bucket edges, cache lengths and prompt chunks come every few tokens."""

_TIMEOUT_S = 60.0
_MEMORY = 16 << 30

_LEAST = 0.5
"""Of all of a draft's tokens: the chance that a draft may end below, in every other place of a reply."""


class FakeServer:
    """Implements ``tf_plugins.testing.Server``."""

    def __init__(self, engine: EngineThread, lanes: Lanes, plugins: Plugins, proposers: Sequence[Proposer]) -> None:
        self.proposers = proposers
        self._engine = engine
        self._lanes = lanes
        self._plugins = plugins
        self._ids = itertools.count(1)

    @property
    def failures(self) -> Mapping[str, str]:
        """What the lanes count; the releases at the end, too."""
        return {name: failures.last for name, failures in self._lanes.snapshot().failures.items()}

    def reply(self, prompt: str, **how: Any) -> Reply:
        """One reply, alone."""
        return self.replies([prompt], **how)[0]

    def replies(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int = 80,
        temperature: float = 0.0,
        seed: int = 0,
        draft: bool = True,
    ) -> list[Reply]:
        """Replies made together."""
        clients = []
        for prompt in prompts:
            request = GenerateRequest(
                id=f"r{next(self._ids)}",
                prompt=tuple(prompt.encode()),
                sampling=Sampling(seed=seed, temperature=temperature),
                max_tokens=max_tokens,
                end_ids=frozenset({END}),
                reader=ByteReader,
                draft=draft,
            )
            clients.append(_Client())
            self._engine.submit(request, clients[-1])
        return [client.reply() for client in clients]

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        """What the plugins answer before a request queues."""
        return self._plugins.refuse_request(request)


class ByteReader:
    """Text of bytes."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> tuple[str, bool]:
        """The text that a byte completes; the model's own ids have none."""
        return self._decoder.decode(bytes([token]) if token < END else b""), False

    def finish(self) -> str:
        """What is left."""
        return self._decoder.decode(b"", final=True)


class _Client:
    """Collects one reply, for the thread that waits for it."""

    def __init__(self) -> None:
        self.cancelled = False
        self._events: queue.Queue[Event] = queue.Queue()

    def send(self, event: Event) -> None:
        self._events.put(event)

    def reply(self) -> Reply:
        text = ""
        while True:
            event = self._events.get(timeout=_TIMEOUT_S)
            if isinstance(event, Delta):
                text += event.text
            if isinstance(event, Failed):
                raise AssertionError(f"the reply failed: {event.message}")
            if isinstance(event, Done):
                return Reply(event.tokens, text, event.reason, event.rounds, event.drafted, event.kept)


class _EveryDepth(FixedDepths):
    """The longest drafts, and their alternatives where there is room: what pays is not the question here."""

    def __init__(self) -> None:
        super().__init__(MOST_DRAFTS, beside=(MOST_ALTERNATIVES,) * MOST_DRAFTS)

    def least(self, stream: StreamView, proposer: int) -> float:
        return _LEAST if stream.context % 2 else 0.0


@contextmanager
def fake_server(*plugins: type[Plugin], settings: Mapping[str, Any] | None = None) -> Iterator[FakeServer]:
    """A running server; see ``tf_plugins.testing.Engine``."""
    tables = [settings or {}, *({} for _ in plugins[1:])]
    used = [_loaded(plugin, table) for plugin, table in zip(plugins, tables, strict=False)]
    facade = Plugins([*used, _loaded(BytesPlugin, {})])
    engine = EngineThread()
    made: list[Proposer] = []
    owned = ExitStack()
    try:
        lanes = engine.call(lambda: _lanes(facade, made, owned))
        engine.serve(lanes)
        yield FakeServer(engine, lanes, facade, made)
    finally:
        engine.stop(0.0, owned.close)


def _lanes(plugins: Plugins, made: list[Proposer], owned: ExitStack) -> Lanes:
    """What start-up does once a target is loaded, on the engine thread."""
    checkpoint = byte_checkpoint(Path("bytes"), "bytes", PLAN.context)
    model, drawer = ByteModel(checkpoint, PLAN), Drawer(VOCAB, VOCAB)
    made += plugins.proposers(
        TargetFacts(
            model=model,
            checkpoint=checkpoint,
            vocab=VOCAB,
            noise_vocab=VOCAB,
            drafter=None,
            device=Device("cpu", "cpu", "cpu (fake)"),
            context=PLAN.context,
            parallel=4,
            noise=drawer.noise,
        )
    )
    fences = fenced(plugins, made, owned, PLAN.context, _MEMORY)
    states = PromptStore(model, PLAN)

    def bytes_for(tokens: int) -> int:
        return model.cache_bytes(tokens) + sum(fence.fresh(tokens) for fence in fences)

    admission = plugins.admission(
        Resources(
            memory=_MEMORY,
            weights=0,
            limit=None,
            states_limit=None,
            context=PLAN.context,
            parallel=4,
            stream_bytes=bytes_for(PLAN.context),
            bytes_for=bytes_for,
            shedding={fence.name: fence for fence in fences},
            states=states,
        )
    )
    return Lanes(
        model,
        PLAN,
        drawer,
        admission,
        proposers=fences,
        depths=_EveryDepth(),
        states=states,
        observers=(plugins,),
    )


def _loaded(plugin: type[Plugin], table: Mapping[str, Any]) -> LoadedPlugin:
    """A class as the host would load it from an entry point."""
    found = _found(plugin)
    kind, hooks = checked(found, plugin)
    return LoadedPlugin(found, kind(parse(found, kind, table, None)), hooks)


def _found(plugin: Any) -> Found:
    module, name = getattr(plugin, "__module__", "unknown"), getattr(plugin, "__name__", "unknown")
    entry = EntryPoint(name, f"{module}:{name}", ENTRY_POINT_GROUP)
    return Found(name, entry, module.partition(".")[0], "under test")

"""From settings to a server that is ready: load, probe, proposers, ledger, lanes.

Everything that touches MLX runs on the engine thread. What was made is freed again when a later step fails, the
drafter before the family.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from tf_host.checkpoints import Pair, resolve_pair
from tf_host.device import bits_key, device_memory
from tf_host.exact import Verdict, VerdictStore, probe
from tf_host.exact.sample import REQUEST, SAMPLE
from tf_host.exact.verdict import verdict_key
from tf_host.http import Metrics
from tf_host.lanes import EngineThread, Lanes, Limits
from tf_host.lanes.depths import Depths
from tf_host.lanes.fence import Fence
from tf_host.lanes.fixed_depths import FixedDepths, NoDrafts
from tf_host.lanes.guarded_depths import GuardedDepths
from tf_host.plugins import Plugins
from tf_host.plugins.named import NamedFamily
from tf_host.pricing import Pricing
from tf_host.prompts import PromptStore
from tf_host.sampling import Drawer
from tf_host.settings import ServerSettings
from tf_host.start.composed import Composed
from tf_host.start.fencing import fenced
from tf_host.start.rehearsal import rehearse
from tf_host.start.weights import refuse_weights
from tf_host.text import Text, load_text
from tf_plugins import Refused
from tf_plugins.folders import cache_folder
from tf_plugins.rows import RowPlan
from tf_plugins.types import Device, Family, Model, Progress, Proposer, Refusal, Resources, StartFacts, TargetFacts

log = logging.getLogger(__name__)

T = TypeVar("T")

GIB = 1 << 30

REHEARSAL_S = 6.0
"""Seconds of drafted rounds before the port opens; they seed pricing, and no bit of a reply hangs on them."""

DEFAULT_PARALLEL = {"cpu": 2, "gpu": 8}
"""Streams at once, by device class."""

NOISY_STREAMS = 16
"""Streams that noise is kept for where nobody says how many there may be."""


def compose(settings: ServerSettings, device: Device, plugins: Plugins, progress: Progress) -> Composed:
    """Start everything but the HTTP side.

    Args:
        settings: what the server was told.
        device: from ``tf_host.device.prepare``, called before anything imported MLX.
        plugins: the plugins in use.
        progress: told what is being done.

    Raises:
        Refused: something that is not served, named.
        PluginError: a plugin that failed.
    """
    pair = resolve_pair(settings, plugins, progress)
    context = _context(settings, pair)
    parallel = settings.parallel if settings.parallel is not None else DEFAULT_PARALLEL[device.kind]
    streams = None if parallel == "auto" else parallel
    start = StartFacts(pair.target, pair.drafter, device, context, streams, plugins.names)
    if (refusal := plugins.refuse_start(start)) is not None:
        raise Refused(refusal)
    text = load_text(
        pair.target.folder,
        end_ids=pair.target.end_ids,
        vocab=pair.target.vocab,
        chat_template=settings.chat_template,
        tokenizer=pair.family.load_tokenizer(pair.target),
    )
    engine = EngineThread()
    owned = ExitStack()
    try:
        return engine.call(
            lambda: _on_engine(settings, device, plugins, pair, context, streams, text, engine, owned, progress)
        )
    except KeyboardInterrupt:
        raise  # the load goes on in its thread for as long as it takes, and the process ends without it
    except BaseException:
        engine.stop(0.0, owned.close)
        raise


def _on_engine(
    settings: ServerSettings,
    device: Device,
    plugins: Plugins,
    pair: Pair,
    context: int,
    streams: int | None,
    text: Text,
    engine: EngineThread,
    owned: ExitStack,
    progress: Progress,
) -> Composed:
    import mlx.core as mx

    refuse_weights(pair, device, device_memory(device), _gib(settings.memory_gib), context)
    model = pair.family.load(pair.target, device, progress)
    owned.callback(model.release)
    verdict, plan = _prove(settings, device, pair, model, context, text, progress)
    if pair.drafter is not None and settings.drafts and not verdict.exact:
        raise Refused(
            Refusal(
                "not_exact",
                f"--drafter: rows cannot be proven exact on this device: {verdict.failure} differs",
                "start without --drafter, or choose another --cpu-blas or --dtype",
                param="--drafter",
            )
        )
    drawer = Drawer(text.vocab, pair.target.vocab, streams or NOISY_STREAMS)
    proposers: tuple[Proposer, ...] = ()
    if settings.drafts and verdict.exact:
        proposers = plugins.proposers(
            TargetFacts(
                model=model,
                checkpoint=pair.target,
                vocab=text.vocab,
                noise_vocab=pair.target.vocab,
                drafter=pair.drafter,
                device=device,
                context=context,
                parallel=streams,
                noise=drawer.noise,
            )
        )
    fences = fenced(plugins, proposers, owned, context, device_memory(device))
    states = PromptStore(model, plan, _gib(settings.prompt_cache_gib), settings.prompt_cache_dir, verdict.key)

    def bytes_for(tokens: int) -> int:
        return model.cache_bytes(tokens) + sum(fence.fresh(tokens) for fence in fences)

    gc.collect()  # the probe's caches are no weights
    admission = plugins.admission(
        Resources(
            memory=device_memory(device),
            weights=mx.get_active_memory(),
            limit=_gib(settings.memory_gib),
            states_limit=_gib(settings.prompt_cache_gib),
            context=context,
            parallel=streams,
            stream_bytes=bytes_for(context),
            bytes_for=bytes_for,
            shedding={fence.name: fence for fence in fences},
            states=states,
        )
    )
    owned.callback(states.flush)
    depths = _depths(settings, fences, plan)

    metrics = Metrics()

    def make_lanes(using: Depths, *, observed: bool = True) -> Lanes:
        return Lanes(
            model,
            plan,
            drawer,
            admission,
            proposers=fences,
            depths=using,
            states=states if observed else None,
            observers=(plugins, metrics) if observed else (),
            limits=Limits(settings.queue, settings.decode_share, log_ends=observed),
        )

    _asked(pair.family, "warm", lambda: model.warm(progress))
    if proposers:
        progress("rehearsing", 0.0)
        rehearse(lambda using: make_lanes(using, observed=False), depths, _rehearsed(text), context, REHEARSAL_S)
    # Last: warming takes memory that no ledger knows of, and the rehearsal leaves a drafter's cache behind.
    states.load(admission.budget - sum(admission.used().values()))
    lanes = make_lanes(depths)
    return Composed(
        settings=settings,
        device=device,
        plugins=plugins,
        target=pair.target,
        drafter=pair.drafter,
        text=text,
        engine=engine,
        model=model,
        plan=plan,
        verdict=verdict,
        proposers=proposers,
        admission=admission,
        lanes=lanes,
        metrics=metrics,
        names=settings.served_model_name or (pair.target.name,),
        owned=owned,
    )


def _context(settings: ServerSettings, pair: Pair) -> int:
    """The served context: the model's own unless a shorter one was asked for."""
    own = pair.target.context
    if settings.context is not None and settings.context > own:
        raise Refused(
            Refusal(
                "context_too_long",
                f"--context {settings.context} is past the model's own context of {own} tokens",
                f"use --context {own} or less",
                param="--context",
            )
        )
    return settings.context or own


def _prove(
    settings: ServerSettings,
    device: Device,
    pair: Pair,
    model: Model,
    context: int,
    text: Text,
    progress: Progress,
) -> tuple[Verdict, RowPlan]:
    """The verdict kept for this device and these weights, or a new one; its plan is in use afterwards."""
    base = RowPlan.for_device(device.kind, context, markers=text.marker_ids)
    key = verdict_key(bits_key(device) | {"kernels": model.kernels}, pair.target.weights_key, base)
    store = VerdictStore(cache_folder() / "verdicts")
    verdict = None if settings.reprobe else store.load(key)
    if verdict is None:
        ids = text.encode(SAMPLE, special=False)
        verdict = _asked(pair.family, "proving", lambda: probe(model, base, device.kind, key, ids, progress))
        store.save(verdict)
    plan = verdict.plan(base)
    _asked(pair.family, "use", lambda: model.use(plan))
    return verdict, plan


def _asked(family: Family, method: str, call: Callable[[], T]) -> T:
    """What a model does; what it raises names the plugin of its family."""
    return family.ask_model(method, call) if isinstance(family, NamedFamily) else call()


def _depths(settings: ServerSettings, proposers: Sequence[Fence], plan: RowPlan) -> Depths:
    if not proposers:
        return NoDrafts()
    if settings.draft_depth is not None:
        return FixedDepths(settings.draft_depth)
    return GuardedDepths(Pricing(plan, proposers))


def _rehearsed(text: Text) -> Sequence[int]:
    """A prompt like those to come, so that drafts land as often as they will."""
    if text.has_template:
        with suppress(Refused):  # a template may want other messages, and they may come
            return text.chat([{"role": "user", "content": REQUEST}]).ids
    return text.encode(SAMPLE, special=False)


def _gib(value: float | None) -> int | None:
    return None if value is None else int(value * GIB)

"""Every hook, with when it is called and what its answer means.

Collectors are asked of all plugins in settings order and their answers are joined. Deciders stop at the first
answer that is not ``None``. Observers answer nothing. Every hook is called on the engine thread, except
``checkpoints``, ``families`` and ``refuse_start`` (main thread, at start-up) and ``refuse_request`` (threads of the
HTTP side). Hooks are called at start-up, once a request or once a round; the objects they return do the per-round work.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from tf_plugins.types import (
    Admission,
    Family,
    NamedCheckpoint,
    Proposer,
    Refusal,
    RequestFacts,
    Resources,
    RoundDone,
    StartFacts,
    StreamDone,
    TargetFacts,
)

ENTRY_POINT_GROUP = "tf_plugins"

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)


@hookspec
def families() -> Sequence[Family]:
    """Model families that this plugin serves.

    Called once at start-up on the main thread, before any checkpoint is looked at. Returns ``Family`` objects, or an
    empty sequence. Collected from all plugins in settings order; the first family that recognises a checkpoint
    serves it, unless ``--family`` names one. The target's family reads the drafter too: one that it does not recognise
    is refused. An exception stops the start with the plugin's name, and so does one in a method of a family. Since 0.1.

    Example:
        @hookimpl
        def families(self) -> Sequence[Family]:
            return (HouseFamily(),)
    """
    raise NotImplementedError


@hookspec
def checkpoints() -> Sequence[NamedCheckpoint]:
    """Names that resolve to local folders.

    Called once at start-up on the main thread. Returns ``NamedCheckpoint`` objects, or an empty sequence. Collected
    from all plugins in settings order; a name that two plugins give is an error that shows both. ``resolve`` is
    called only for the names that are served. An exception stops the start with the plugin's name, in ``resolve``
    too. Since 0.1.

    Example:
        @hookimpl
        def checkpoints(self) -> Sequence[NamedCheckpoint]:
            folder = Path("/models/house-8b")
            return (NamedCheckpoint("house", lambda progress: folder, drafter="/models/house-1b"),)
    """
    raise NotImplementedError


@hookspec
def proposers(target: TargetFacts) -> Sequence[Proposer]:
    """Proposers for a loaded target.

    Called once on the engine thread, after the target is loaded and before the port opens. ``target`` is the loaded
    model and its facts. Returns ``Proposer`` objects, or an empty sequence. Collected from all plugins in settings
    order, which is the order that they are asked in each round: the first draft for a stream stands. An exception
    stops the start; whatever the plugin had loaded by then it must have freed.

    A plugin whose proposers draft with the checkpoint of ``--drafter``, ``target.drafter``, names its family in
    ``Plugin.drafts_with``. Since 0.1.

    Example:
        @hookimpl
        def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
            return (HouseProposer(target.vocab),)
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def admission(resources: Resources) -> Admission | None:
    """The object that owns the ledger.

    Called once on the engine thread, after target and proposers are loaded. Returns an ``Admission``, or ``None`` to
    leave it to the next plugin. Stops at the first answer; none at all stops the start. Raises ``Refused`` when not
    even one stream fits, with the number that would in its hint. Since 0.1.

    Example:
        @hookimpl
        def admission(self, resources: Resources) -> Admission | None:
            if resources.limit is None:
                return None
            return HouseAdmission(resources.limit)
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def refuse_start(start: StartFacts) -> Refusal | None:
    """A reason not to start, before anything loads.

    Called once on the main thread. Returns a ``Refusal``, or ``None`` for no objection. Stops at the first refusal.
    An exception stops the start too, with the plugin's name. Since 0.1.

    Example:
        @hookimpl
        def refuse_start(self, start: StartFacts) -> Refusal | None:
            if start.drafter is None:
                return Refusal("no_drafter_here", "this machine serves with a drafter only", "add --drafter")
            return None
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def refuse_request(request: RequestFacts) -> Refusal | None:
    """A reason not to serve a request, before it queues.

    Called once a request on a thread of the HTTP side, for several requests at a time; keep it short. Returns a
    ``Refusal``, whose status becomes the HTTP status, or ``None`` for no objection. Stops at the first refusal. An
    exception, a ``Refusal`` with a field that cannot be sent or any other answer is logged with the plugin's name and
    refuses the request with HTTP 500 and the code ``plugin_error``. Since 0.1.

    Example:
        @hookimpl
        def refuse_request(self, request: RequestFacts) -> Refusal | None:
            if request.key == "key 2" and request.max_tokens > 256:
                reason = f"max_tokens {request.max_tokens} is past the 256 of this key"
                return Refusal("key_limit", reason, "ask for 256 or fewer", status=403, param="max_tokens")
            return None
    """
    raise NotImplementedError


@hookspec
def round_done(round: RoundDone) -> None:
    """A round is over.

    Called once a round on the engine thread; keep it short. Answers nothing. What a plugin counts it shows by itself,
    in a log, a file or on a port of its own: ``/metrics`` and ``/health`` are the host's. All plugins are told, in
    settings order, each by a copy of its own. An exception is logged with the plugin's name and goes no further. Since
    0.1.

    Example:
        @hookimpl
        def round_done(self, round: RoundDone) -> None:
            if round.seconds > 1:
                log.warning("a round of %d rows took %.1f s", round.rows, round.seconds)
    """
    raise NotImplementedError


@hookspec
def stream_done(stream: StreamDone) -> None:
    """A stream is over, however it ended.

    Called once a stream on the engine thread. Answers nothing. All plugins are told, in settings order, each by a copy
    of its own. An exception is logged with the plugin's name and goes no further. Since 0.1.

    Example:
        @hookimpl
        def stream_done(self, stream: StreamDone) -> None:
            for source, drafted in stream.drafted.items():
                log.info("%s: %d of %d by %s kept", stream.id, stream.kept[source], drafted, source)
    """
    raise NotImplementedError

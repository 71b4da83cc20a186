"""The plugins in use, behind typed methods; nothing else calls a hook."""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import pluggy

from tf_host.plugins.answers import fault_of, name_fault
from tf_host.plugins.asking import ask, check_refusal
from tf_host.plugins.discover import Found, discover
from tf_host.plugins.info import PluginInfo
from tf_host.plugins.load import FAILURES, LoadedPlugin, available, load, one_line
from tf_host.plugins.named import NamedFamily, named_checkpoint
from tf_host.settings import ServerSettings
from tf_plugins import ENTRY_POINT_GROUP, PluginError, TfError, hookspecs
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

log = logging.getLogger(__name__)

SLOW_S = 1.0
"""Seconds past which a hook that is called while serving is worth a line of the log."""


class Plugins:
    """Asks one plugin at a time, so that whatever goes wrong has a name.

    Args:
        loaded: the plugins in use, in the order that they are asked.
    """

    def __init__(self, loaded: Sequence[LoadedPlugin]) -> None:
        self._loaded = tuple(loaded)
        self._reported: set[tuple[str, str, type[BaseException]]] = set()
        self._slow: set[tuple[str, str]] = set()
        self._givers: dict[str, Found] = {}
        manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
        manager.add_hookspecs(hookspecs)
        for one in self._loaded:
            try:
                manager.register(one.plugin, one.name)
            except (ValueError, pluggy.PluginValidationError) as error:
                raise one.found.failed("start", one_line(error), "see the hooks in tf_plugins.hookspecs") from error
        manager.check_pending()
        instances = [one.plugin for one in self._loaded]
        self._callers: dict[str, list[tuple[LoadedPlugin, pluggy.HookCaller]]] = {}
        for one in self._loaded:
            others = [plugin for plugin in instances if plugin is not one.plugin]
            for hook in one.hooks:
                caller = manager.subset_hook_caller(hook, others)
                self._callers.setdefault(hook, []).append((one, caller))

    @classmethod
    def load(cls, settings: ServerSettings) -> Self:
        """The plugins that the settings name; ``SettingsError`` or ``PluginError``."""
        return cls(load(settings))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the plugins in use, in order."""
        return tuple(one.name for one in self._loaded)

    def unused(self) -> tuple[str, ...]:
        """Names of plugins that are installed and not in use."""
        return tuple(name for name in discover() if name not in self.names)

    def rows(self) -> tuple[PluginInfo, ...]:
        """The plugins in use in their order, then those that are installed and not in use."""
        used = (
            PluginInfo(one.name, one.found.distribution, one.found.version, one.hooks, "loaded") for one in self._loaded
        )
        others = (found for name, group in discover().items() if name not in self.names for found in group)
        return (*used, *available(others))

    # collectors

    def families(self) -> tuple[Family, ...]:
        """All families, whose failures name their plugins; ``PluginError`` for one that fails or a name given twice."""
        found: list[Family] = []
        givers = self._collect("families", Family, found)
        return tuple(NamedFamily(family, givers[family.name]) for family in found)

    def checkpoints(self) -> tuple[NamedCheckpoint, ...]:
        """All named checkpoints, likewise."""
        found: list[NamedCheckpoint] = []
        givers = self._collect("checkpoints", NamedCheckpoint, found)
        return tuple(named_checkpoint(checkpoint, givers[checkpoint.name]) for checkpoint in found)

    def proposers(self, target: TargetFacts) -> tuple[Proposer, ...]:
        """All proposers, in the order that they are asked; those already made are released when one fails."""
        made: list[Proposer] = []
        try:
            self._givers = self._collect("proposers", Proposer, made, target=target)
        except BaseException:
            for proposer in reversed(made):
                _release(proposer)
            raise
        return tuple(made)

    def giver(self, proposer: str) -> Found:
        """The plugin that gave the proposer of this name."""
        return self._givers[proposer]

    def draft_with(self, family: str) -> bool:
        """Whether a plugin in use drafts with checkpoints of this family."""
        return any(family in one.plugin.drafts_with for one in self._loaded)

    # deciders

    def admission(self, resources: Resources) -> Admission:
        """The owner of the ledger; raises when no plugin gives one, and ``Refused`` when no stream fits."""
        for one, answer in self._answers("admission", resources=resources):
            if answer is None:
                continue
            if fault := fault_of(answer, Admission):
                raise one.found.failed("admission", fault, "return an Admission")
            admission: Admission = answer
            return admission
        raise TfError("no plugin in use decides on admission\nhint: add llama-budget to use_plugins")

    def refuse_start(self, start: StartFacts) -> Refusal | None:
        """The first reason not to start."""
        for one, answer in self._answers("refuse_start", start=start):
            check_refusal(one.found, "refuse_start", answer)
            if answer is not None:
                refusal: Refusal = answer
                return refusal
        return None

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        """The first reason not to serve a request; a plugin that fails refuses it with HTTP 500."""
        for one, caller in self._callers.get("refuse_request", ()):
            started = time.perf_counter()
            try:
                answer = caller(request=dataclasses.replace(request, body=copy.deepcopy(request.body)))
                self._timed(one, "refuse_request", started, "the request")
                check_refusal(one.found, "refuse_request", answer, of_request=True)
            except BaseException as error:  # not the main thread: whatever this is, the plugin raised it
                self._report(one, "refuse_request", error, request.id)
                return Refusal(
                    "plugin_error",
                    f"plugin {one.name!r} failed while it looked at the request",
                    "the server's log has the cause",
                    status=500,
                )
            if answer is not None:
                refusal: Refusal = answer
                return refusal
        return None

    # observers

    def round_done(self, round: RoundDone) -> None:
        """Tell all plugins; what they raise is logged."""
        self._tell("round_done", round=round)

    def stream_done(self, stream: StreamDone) -> None:
        """Tell all plugins; what they raise is logged."""
        self._tell("stream_done", stream=stream)

    def _collect(self, hook: str, kind: type[Any], into: list[Any], **facts: Any) -> dict[str, Found]:
        """Add every plugin's objects, in order; each is in ``into`` before it is looked at. Who gave each, by name."""
        givers: dict[str, Found] = {}
        for one, answer in self._answers(hook, **facts):
            if isinstance(answer, str) or not isinstance(answer, Sequence):
                cause = f"it returned {type(answer).__name__} and not a sequence of {kind.__name__}"
                raise one.found.failed(hook, cause, "return a tuple or a list, empty for nothing")
            into.extend(answer)
            for item in answer:
                if fault := fault_of(item, kind) or name_fault(item, kind):
                    raise one.found.failed(hook, fault, f"see tf_plugins.types.{kind.__name__}")
                if (giver := givers.get(item.name)) is not None:
                    if giver is one.found:
                        raise giver.failed(
                            hook, f"it gives the name {item.name!r} twice", "give each a name of its own"
                        )
                    other = f"plugin {giver.name!r} ({giver.distribution} {giver.version})"
                    cause = f"it gives the name {item.name!r}, and so does {other}"
                    raise one.found.failed(hook, cause, "take one of the two out of use, or give it another name")
                givers[item.name] = one.found
        return givers

    def _answers(self, hook: str, **facts: Any) -> Iterator[tuple[LoadedPlugin, Any]]:
        """Each plugin's own answers: all that it does not leave at ``None``, of a decider one thing."""
        for one, caller in self._callers.get(hook, ()):
            answer = ask(one.found, hook, partial(caller, **facts))
            if isinstance(answer, list) and not _first_result(hook):
                yield from ((one, only) for only in answer)
            else:
                yield one, answer

    def _tell(self, hook: str, **events: Any) -> None:
        for one, caller in self._callers.get(hook, ()):
            started = time.perf_counter()
            try:
                caller(**{name: _own(event) for name, event in events.items()})
                self._timed(one, hook, started, "every stream")
            except BaseException as error:  # the engine's thread: no signal is handled there
                self._report(one, hook, error)

    def _timed(self, one: LoadedPlugin, hook: str, started: float, whoever: str) -> None:
        """Log a slow call, once a plugin and hook."""
        seconds = time.perf_counter() - started
        if seconds > SLOW_S and (one.name, hook) not in self._slow:
            self._slow.add((one.name, hook))
            text = "plugin %r took %.1f s in %s, and %s waits for it; later ones are not logged"
            log.warning(text, one.name, seconds, hook, whoever)

    def _report(self, one: LoadedPlugin, hook: str, error: BaseException, request: str = "") -> None:
        """Log with the traceback, once a plugin, hook and kind of error; of further ones a line for each request."""
        kind = (one.name, hook, type(error))
        first = kind not in self._reported
        self._reported.add(kind)
        if not first and not request:
            return
        own = isinstance(error, PluginError)  # the host's words: they name the plugin, and no code is to blame
        said, hint, more = str(error if own else one.found.failed(hook, one_line(error), "")).partition("\nhint: ")
        said += hint + more if own and first else ""
        about, rest = (f"request {request}: ", "") if request else ("", "; further ones of this kind are not logged")
        log.error("%s%s%s", about, said, rest, exc_info=error if first and not own else None)


def _first_result(hook: str) -> bool:
    spec = getattr(getattr(hookspecs, hook), f"{ENTRY_POINT_GROUP}_spec")
    return bool(spec["firstresult"])


def _own(event: Any) -> Any:
    """An observer's own copy: what it does to it is seen by no other."""
    return dataclasses.replace(event, drafted=dict(event.drafted), kept=dict(event.kept))


def _release(proposer: Proposer) -> None:
    if isinstance(proposer, type) or not hasattr(proposer, "release"):  # a plugin may have returned anything
        return
    try:
        proposer.release()
    except FAILURES:
        log.exception("a %s failed while it was released", type(proposer).__name__)

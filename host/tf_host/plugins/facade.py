"""The plugins in use, behind typed methods; nothing else calls a hook."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pluggy

from tf_host.plugins.discover import discover
from tf_host.plugins.info import PluginInfo
from tf_host.plugins.load import FAILURES, LoadedPlugin, available, load, one_line
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


class Plugins:
    """Asks one plugin at a time, so that whatever goes wrong has a name.

    Args:
        loaded: the plugins in use, in the order that they are asked.
    """

    def __init__(self, loaded: Sequence[LoadedPlugin]) -> None:
        self._loaded = tuple(loaded)
        self._reported: set[tuple[str, str, type[BaseException]]] = set()
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

    def rows(self) -> tuple[PluginInfo, ...]:
        """The plugins in use in their order, then those that are installed and not in use."""
        used = (
            PluginInfo(one.name, one.found.distribution, one.found.version, one.hooks, "loaded") for one in self._loaded
        )
        others = (found for name, group in discover().items() if name not in self.names for found in group)
        return (*used, *available(others))

    # collectors

    def families(self) -> tuple[Family, ...]:
        """All families; ``PluginError`` for one that fails or a name given twice."""
        found: list[Family] = []
        self._collect("families", Family, found)
        return tuple(found)

    def checkpoints(self) -> tuple[NamedCheckpoint, ...]:
        """All named checkpoints; ``PluginError`` for a plugin that fails or a name given twice."""
        found: list[NamedCheckpoint] = []
        self._collect("checkpoints", NamedCheckpoint, found)
        return tuple(found)

    def proposers(self, target: TargetFacts) -> tuple[Proposer, ...]:
        """All proposers, in the order that they are asked; those already made are released when one fails."""
        made: list[Proposer] = []
        try:
            self._collect("proposers", Proposer, made, target=target)
        except BaseException:
            for proposer in reversed(made):
                _release(proposer)
            raise
        return tuple(made)

    # deciders

    def admission(self, resources: Resources) -> Admission:
        """The owner of the ledger; raises when no plugin gives one, and ``Refused`` when no stream fits."""
        for one, answer in self._answers("admission", resources=resources):
            if answer is None:
                continue
            if lacking := _lacking(answer, Admission):
                raise one.found.failed("admission", f"its answer has no {lacking}", "return an Admission")
            admission: Admission = answer
            return admission
        raise TfError("no plugin in use decides on admission\nhint: add llama-budget to use_plugins")

    def refuse_start(self, start: StartFacts) -> Refusal | None:
        """The first reason not to start."""
        for one, answer in self._answers("refuse_start", start=start):
            if isinstance(answer, Refusal):
                return answer
            if answer is not None:
                raise _no_refusal(one, "refuse_start", answer)
        return None

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        """The first reason not to serve a request; a plugin that fails refuses it with HTTP 500."""
        for one, caller in self._callers.get("refuse_request", ()):
            try:
                answer = caller(request=request)
                if answer is not None and not isinstance(answer, Refusal):
                    raise _no_refusal(one, "refuse_request", answer)
            except FAILURES as error:
                self._report(one, "refuse_request", error)
                return Refusal(
                    "plugin_error",
                    f"plugin {one.name!r} failed while it looked at the request",
                    "the server's log has the cause",
                    status=500,
                )
            if answer is not None:
                return answer
        return None

    # observers

    def round_done(self, round: RoundDone) -> None:
        """Tell all plugins; what they raise is logged."""
        self._tell("round_done", round=round)

    def stream_done(self, stream: StreamDone) -> None:
        """Tell all plugins; what they raise is logged."""
        self._tell("stream_done", stream=stream)

    def _collect(self, hook: str, kind: type[Any], into: list[Any], **facts: Any) -> None:
        """Add every plugin's objects, in order; each is in ``into`` before it is looked at."""
        givers: dict[str, str] = {}
        for one, answer in self._answers(hook, **facts):
            if isinstance(answer, str) or not isinstance(answer, Sequence):
                cause = f"it returned {type(answer).__name__} and not a sequence of {kind.__name__}"
                raise one.found.failed(hook, cause, "return a tuple or a list, empty for nothing")
            into.extend(answer)
            for item in answer:
                if lacking := _lacking(item, kind):
                    cause = f"its {type(item).__name__} is no {kind.__name__}: it has no {lacking}"
                    raise one.found.failed(hook, cause, f"see tf_plugins.types.{kind.__name__}")
                if (giver := givers.get(item.name)) is not None:
                    cause = f"it gives the name {item.name!r}, and plugin {giver!r} gives it too"
                    raise one.found.failed(hook, cause, "take one of the two out of use")
                givers[item.name] = one.name

    def _answers(self, hook: str, **facts: Any) -> Iterator[tuple[LoadedPlugin, Any]]:
        """Each plugin's own answer; what a plugin raises becomes an error that names it."""
        for one, caller in self._callers.get(hook, ()):
            try:
                answer = caller(**facts)
            except TfError:
                raise
            except FAILURES as error:
                hint = f"report it to the authors of {one.found.distribution}, or take {one.name!r} out of use"
                raise one.found.failed(hook, one_line(error), hint) from error
            if isinstance(answer, list) and not _first_result(hook):  # pluggy lists the answers that are not None
                yield from ((one, only) for only in answer)
            else:
                yield one, answer

    def _tell(self, hook: str, **facts: Any) -> None:
        for one, caller in self._callers.get(hook, ()):
            try:
                caller(**facts)
            except FAILURES as error:
                self._report(one, hook, error)

    def _report(self, one: LoadedPlugin, hook: str, error: BaseException) -> None:
        """Log with the traceback, once a plugin, hook and kind of error."""
        kind = (one.name, hook, type(error))
        if kind in self._reported:
            return
        self._reported.add(kind)
        log.error(
            "plugin %r (%s %s) failed in %s: %s; further ones of this kind are not logged",
            one.name,
            one.found.distribution,
            one.found.version,
            hook,
            one_line(error),
            exc_info=error,
        )


def _first_result(hook: str) -> bool:
    spec = getattr(getattr(hookspecs, hook), f"{ENTRY_POINT_GROUP}_spec")
    return bool(spec["firstresult"])


def _no_refusal(one: LoadedPlugin, hook: str, answer: object) -> PluginError:
    return one.found.failed(hook, f"it returned {type(answer).__name__}", "return a Refusal, or None for no objection")


def _lacking(item: object, kind: type[Any]) -> str | None:
    """The first member of a protocol that an object lacks; for a dataclass, its name."""
    if dataclasses.is_dataclass(kind):
        return None if isinstance(item, kind) else f"type {kind.__name__}"
    members = [name for name in (*inspect.get_annotations(kind), *vars(kind)) if not name.startswith("_")]
    return next((name for name in members if not hasattr(item, name)), None)


def _release(proposer: Proposer) -> None:
    if not hasattr(proposer, "release"):  # a plugin may have returned anything
        return
    try:
        proposer.release()
    except FAILURES:
        log.exception("a %s failed while it was released", type(proposer).__name__)

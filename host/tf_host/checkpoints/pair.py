"""The pair that is served, and the family that serves it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tf_host.checkpoints.resolve import Source, resolve
from tf_host.checkpoints.untaken import drafter_untaken
from tf_host.plugins import Plugins
from tf_host.settings import ServerSettings
from tf_host.settings.nearest import nearest
from tf_plugins import Refused
from tf_plugins.types import Checkpoint, Family, Progress, Refusal, RefusesEarly, Role

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pair:
    """What to load.

    Attributes:
        family: serves both.
        target: the model to serve.
        drafter: the drafter, or ``None``.
    """

    family: Family
    target: Checkpoint
    drafter: Checkpoint | None


def resolve_pair(settings: ServerSettings, plugins: Plugins, progress: Progress) -> Pair:
    """Find the target and the drafter, and read their facts; no weight is read.

    Args:
        settings: names the model, the family and the drafter.
        plugins: give the families, in order, and the names of checkpoints.
        progress: told what takes long.

    Raises:
        Refused: something is missing, not recognised or not served.
        PluginError: a plugin failed while it was asked.
    """
    families, named = plugins.families(), plugins.checkpoints()
    family = _named_family(settings, families)
    flag = settings.named("model")
    source = resolve(settings.model, flag, named, progress, plugins.unused())
    family = family or _recognising(source, families, flag)
    if not family.recognises(source.folder):
        raise _not_served(source, [family], flag)
    _refuse_early(family, source, "target")
    if not settings.drafts or settings.drafter is None:
        if settings.drafter is not None:
            log.info("%s: the drafter is left out", settings.named("drafts"))
        return Pair(family, _facts(family, source, "target", progress), None)
    if not plugins.draft_with(family.name):
        raise drafter_untaken(settings, plugins, family)

    def find(asked: str) -> Source:
        found = resolve(asked, settings.named("drafter"), named, progress, plugins.unused())
        if not family.recognises(found.folder):
            raise _foreign_drafter(settings, found, family)
        _refuse_early(family, found, "drafter")
        return found

    # A drafter that is known by now is looked for before the target's weights are fetched.
    asked = settings.drafter or source.drafter
    drafter = find(asked) if asked else None
    target = _facts(family, source, "target", progress)
    if drafter is None:
        if target.drafter is None:
            raise _no_drafter(settings, target)
        drafter = find(target.drafter)
    return Pair(family, target, _facts(family, drafter, "drafter", progress))


def _refuse_early(family: Family, source: Source, role: Role) -> None:
    """Before gigabytes are fetched for nothing."""
    if source.pinned is not None and isinstance(family, RefusesEarly):
        family.refuse(source.folder, role, source.name)


def _facts(family: Family, source: Source, role: Role, progress: Progress) -> Checkpoint:
    if source.pinned is not None:
        source.pinned.fetch_weights(progress)
    checkpoint = family.read(source.folder, role, source.name)
    return replace(checkpoint, revision=source.pinned.revision) if source.pinned else checkpoint


def _named_family(settings: ServerSettings, families: Sequence[Family]) -> Family | None:
    if settings.family is None:
        return None
    by_name = {family.name: family for family in families}
    if settings.family in by_name:
        return by_name[settings.family]
    near = nearest(settings.family, by_name)
    raise _refused(
        "unknown_family",
        f"{settings.named('family')} names {settings.family!r}, and the plugins in use serve"
        f" {', '.join(by_name) or 'no family'}",
        f"did you mean {near}?" if near else "add the plugin that serves it with --add-plugins",
        "--family",
    )


def _recognising(source: Source, families: Sequence[Family], flag: str) -> Family:
    for family in families:
        if family.recognises(source.folder):
            return family
    raise _not_served(source, families, flag)


def _not_served(source: Source, families: Sequence[Family], flag: str) -> Refused:
    names = ", ".join(family.name for family in families) or "none"
    return _refused(
        "unknown_model",
        f"{flag} names {source.asked}, {_kind(source.folder)}, which no family in use serves ({names})",
        "give a checkpoint of such a family, or add the plugin that serves it with --add-plugins",
        "MODEL",
    )


def _no_drafter(settings: ServerSettings, target: Checkpoint) -> Refused:
    return _refused(
        "no_drafter",
        f"{settings.named('drafter')} without a name takes the drafter that goes with the model,"
        f" and none is known for {target.name}",
        "name one: tf-serve MODEL --drafter DIR; or leave --drafter out",
        "--drafter",
    )


def _foreign_drafter(settings: ServerSettings, found: Source, family: Family) -> Refused:
    return _refused(
        "drafter_family",
        f"{settings.named('drafter')} names {found.asked}, {_kind(found.folder)},"
        f" which the family {family.name} does not serve",
        f"name a drafter of the model's own family, {family.name}, on the same tokenizer",
        "--drafter",
    )


def _kind(folder: Path) -> str:
    """What a folder holds, for messages."""
    try:
        kind = json.loads((folder / "config.json").read_text("utf-8")).get("model_type")
    except FileNotFoundError:
        return "a folder without config.json"
    except (OSError, ValueError, AttributeError):
        return "a folder whose config.json cannot be read"
    return f"a checkpoint of type {kind!r}" if kind else "a checkpoint whose config.json has no model_type"


def _refused(name: str, reason: str, hint: str, param: str) -> Refused:
    return Refused(Refusal(name, reason, hint, param=param))

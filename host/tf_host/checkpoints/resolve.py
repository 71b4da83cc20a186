"""Where a model is: a name that a plugin gives, a local folder, or the hub, in this order.

1. A name that a plugin gives (``demo``). A folder of that name in the current directory is ``./demo``.
2. A folder that exists. It may look like a hub name: ``models/llama`` is the folder where there is one.
3. ``org/repo`` or ``org/repo@revision`` on the hub.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_host.checkpoints import hub
from tf_host.settings.nearest import nearest
from tf_plugins import Refused
from tf_plugins.types import NamedCheckpoint, Progress, Refusal

log = logging.getLogger(__name__)

_HUB_NAME = re.compile(r"(?P<repo>[\w][\w.-]*/[\w][\w.-]*)(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint that was found.

    Attributes:
        asked: what the user wrote.
        name: the name to show and serve under by default.
        folder: the local folder; for a hub name its weights may still have to be fetched.
        drafter: the drafter that a plugin names for it.
        pinned: the hub snapshot that it is, or ``None`` for a name or a folder.
    """

    asked: str
    name: str
    folder: Path
    drafter: str | None = None
    pinned: hub.Snapshot | None = None


def resolve(
    asked: str, flag: str, named: Sequence[NamedCheckpoint], progress: Progress, unused: Sequence[str] = ()
) -> Source:
    """Find a checkpoint.

    Args:
        asked: a name, a folder, or a hub name.
        flag: the flag or other source that gave it, for messages.
        named: the names that plugins give.
        progress: told what takes long.
        unused: plugins that are installed and not in use; one of this name is likely to give it.

    Raises:
        Refused: nothing is there, or the hub does not give it.
    """
    by_name = {checkpoint.name: checkpoint for checkpoint in named}
    folder = Path(asked).expanduser()
    if checkpoint := by_name.get(asked):
        if folder.is_dir():
            log.info("%s is the name %r that a plugin gives; write ./%s for the folder", flag, asked, asked)
        return Source(asked, asked, checkpoint.resolve(progress), checkpoint.drafter)
    if folder.is_dir():
        return Source(asked, folder.resolve().name, folder)
    if folder.is_file():
        raise _refused(f"{flag} names the file {asked}, and a checkpoint is a folder", f"give {folder.parent}")
    if (hub_name := _HUB_NAME.fullmatch(asked)) and not asked.startswith("."):
        snapshot = hub.describe(hub_name["repo"], hub_name["revision"], flag)
        return Source(asked, hub_name["repo"], snapshot.folder, pinned=snapshot)
    raise _refused(
        f"{flag} names {asked}, which is no folder here{_no_name(by_name)}", _way_out(asked, by_name, unused)
    )


def _no_name(by_name: Mapping[str, NamedCheckpoint]) -> str:
    return f", no hub name (org/repo) and none of the names {', '.join(by_name)}" if by_name else " and no hub name"


def _way_out(asked: str, by_name: Mapping[str, NamedCheckpoint], unused: Sequence[str]) -> str:
    if asked in unused:
        return f"the plugin {asked} is installed and not in use: --add-plugins {asked}"
    near = nearest(asked, by_name)
    return f"did you mean {near}?" if near else "give a folder with config.json and safetensors files, or org/repo"


def _refused(reason: str, hint: str) -> Refused:
    return Refused(Refusal("checkpoint_not_found", reason, hint, status=404))

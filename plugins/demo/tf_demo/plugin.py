"""The plugin `demo`: the names `demo` and `demo-drafter`."""

from __future__ import annotations

from collections.abc import Sequence

from tf_demo import pair
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import NamedCheckpoint


class DemoPlugin(Plugin):
    """Gives the demo pair its names; nothing is read or written before one of them is served."""

    api_version = 1

    @hookimpl
    def checkpoints(self) -> Sequence[NamedCheckpoint]:
        return (
            NamedCheckpoint("demo", pair.target, drafter="demo-drafter"),
            NamedCheckpoint("demo-drafter", pair.drafter),
        )

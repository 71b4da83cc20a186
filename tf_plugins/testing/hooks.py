"""A plugin's hooks, called as the host calls them."""

from __future__ import annotations

from typing import Any

import pluggy

from tf_plugins import hookspecs
from tf_plugins.hookspecs import ENTRY_POINT_GROUP


class Hooks:
    """Calls a plugin's hooks through pluggy: whatever a method is called, and however few parameters it takes.

    Args:
        plugin: an instance; ``PluginValidationError`` where a marked method fits no hook.
    """

    def __init__(self, plugin: object) -> None:
        self._manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
        self._manager.add_hookspecs(hookspecs)
        self._manager.register(plugin)
        self._manager.check_pending()

    def __contains__(self, hook: str) -> bool:
        return bool(self._caller(hook).get_hookimpls())

    def ask(self, hook: str, **facts: Any) -> Any:
        """The plugin's answer, ``None`` where it has none; of a collector, everything that it gives, in a list."""
        caller = self._caller(hook)
        answer = caller(**facts)
        if caller.spec is None or caller.spec.opts["firstresult"]:
            return answer
        return [item for items in answer for item in items]

    def _caller(self, hook: str) -> pluggy.HookCaller:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        return caller

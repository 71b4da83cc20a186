"""The base class of every plugin."""

from __future__ import annotations

from typing import Any, ClassVar

API_VERSION = 1
"""Version of the hooks and types; a plugin states the one that it was written for."""


class Plugin:
    """One plugin: its settings, and methods marked ``@hookimpl``.

    An entry point of group ``tf_plugins`` names the class. The entry point's name is the plugin's name: it selects
    the plugin in the settings and names its table, ``[plugins.<name>]``. The host makes one instance, before any
    weights load.

    Attributes:
        api_version: the ``API_VERSION`` that the plugin was written for; every plugin states it as a literal.
        Settings: a pydantic model class that its settings table is parsed by, or ``None`` for no settings.
        drafts_with: names of the families whose checkpoints, given with ``--drafter``, its proposers draft with. A
            drafter is always of its target's family, which reads both. A start with a drafter that no plugin in use
            drafts with is refused.
    """

    api_version: ClassVar[int] = 0
    Settings: ClassVar[type[Any] | None] = None
    drafts_with: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: Any) -> None:
        """Args: settings: an instance of ``Settings``, or ``None``."""
        self.settings = settings

"""The refusal of a drafter that no plugin drafts with."""

from __future__ import annotations

from tf_host.plugins import Plugins
from tf_host.settings import ServerSettings
from tf_plugins import Refused
from tf_plugins.types import Family, Refusal


def drafter_untaken(settings: ServerSettings, plugins: Plugins, family: Family) -> Refused:
    """Names the flag, the plugins in use and the plugin to add.

    Args:
        settings: ask for the drafter.
        plugins: none of them takes it.
        family: serves the target and would serve the drafter.
    """
    flag, likely = settings.named("drafter"), f"{family.name}-drafter"
    add = f"--add-plugins {likely}" if likely in plugins.unused() else "add the plugin that does with --add-plugins"
    return Refused(
        Refusal(
            "drafter_untaken",
            f"{flag}: a drafter is of the model's own family, and no plugin in use drafts with the family {family.name}"
            f" ({', '.join(plugins.names)})",
            f"{add}, or leave {flag} out",
            param="--drafter",
        )
    )

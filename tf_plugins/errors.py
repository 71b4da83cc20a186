"""Every error that the server or a plugin raises on purpose.

    TfError
    ├── Refused            a named reason, with the way out; becomes one line, or an HTTP error body
    ├── SettingsError      a setting that cannot be used; names its source, dotted path and what fits
    └── PluginError        a plugin that failed; names plugin, distribution, version, hook, cause and hint

Anything else that escapes is a bug and is reported as one.
"""

from __future__ import annotations

from tf_plugins.types.refusal import Refusal

__all__ = ["PluginError", "Refused", "SettingsError", "TfError"]


class TfError(Exception):
    """Base of all expected errors: shown as one clean message, without a traceback."""


class Refused(TfError):
    """Something was asked for that is not served; raised to refuse a start on purpose.

    Start-up hooks may raise it, and so may ``NamedCheckpoint.resolve``, ``RefusesEarly.refuse`` and the methods of a
    ``Family``. The start stops, and the user reads the refusal as it is: its reason, and its hint on a line of its own,
    without a traceback. From a plugin's ``__init__`` it is shown with the plugin's name. Two hooks return the
    ``Refusal`` instead, ``refuse_start`` and ``refuse_request``; raised in ``refuse_request`` it is a failure like any
    other.

    Args:
        refusal: the reason and the way out.

    Example:
        @hookimpl
        def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
            if target.context > 100_000:
                reason = f"the house proposer has no more than 100000 positions, and --context is {target.context}"
                raise Refused(Refusal("context_too_long", reason, "use --context 100000 or less", param="--context"))
            return (HouseProposer(target.vocab),)
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class SettingsError(TfError):
    """A flag, environment variable or settings-file key that cannot be used."""


class PluginError(TfError):
    """A plugin that failed to import, start or answer a hook, or an object of its that failed at start-up.

    Args:
        plugin: the plugin's name in the settings.
        distribution: the installed distribution that ships it, or ``"unknown"``.
        version: that distribution's version, or ``"unknown"``.
        hook: the hook, the object's method (``"recognises"``, ``"load"``, ...), or ``"import"`` / ``"start"``.
        cause: one line that says what went wrong.
        hint: one line that says what to do.
    """

    def __init__(self, *, plugin: str, distribution: str, version: str, hook: str, cause: str, hint: str) -> None:
        super().__init__(f"plugin {plugin!r} ({distribution} {version}) failed in {hook}: {cause}\nhint: {hint}")
        self.plugin = plugin
        self.distribution = distribution
        self.version = version
        self.hook = hook
        self.cause = cause
        self.hint = hint

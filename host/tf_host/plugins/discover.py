"""What is installed: entry points of group ``tf_plugins``, nothing imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from tf_plugins import ENTRY_POINT_GROUP, PluginError

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry point, with the distribution that ships it."""

    name: str
    entry: EntryPoint
    distribution: str
    version: str

    def failed(self, hook: str, cause: str, hint: str) -> PluginError:
        """The error of this plugin."""
        return PluginError(
            plugin=self.name,
            distribution=self.distribution,
            version=self.version,
            hook=hook,
            cause=cause,
            hint=hint,
        )


def discover() -> dict[str, tuple[Found, ...]]:
    """All installed plugins by name; more than one under a name is an error once the name is used."""
    found: dict[str, tuple[Found, ...]] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        shipped = entry.dist
        plugin = Found(entry.name, entry, shipped.name if shipped else UNKNOWN, shipped.version if shipped else UNKNOWN)
        found[entry.name] = (*found.get(entry.name, ()), plugin)
    return dict(sorted(found.items()))

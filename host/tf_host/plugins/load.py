"""From names in the settings to plugin instances."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tf_host.plugins.checks import checked
from tf_host.plugins.discover import UNKNOWN, Found, discover
from tf_host.plugins.info import PluginInfo
from tf_host.plugins.tables import parse
from tf_host.settings import ServerSettings
from tf_host.settings.nearest import did_you_mean, nearest
from tf_plugins import Plugin, PluginError, SettingsError, TfError

log = logging.getLogger(__name__)

_HOST = Path(__file__).parents[1]

# A plugin that calls sys.exit must not end the server without a word.
FAILURES = (Exception, SystemExit)


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin in use."""

    found: Found
    plugin: Plugin
    hooks: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in the settings."""
        return self.found.name


@dataclass(frozen=True, slots=True)
class _Imported:
    found: Found
    plugin: type[Plugin]
    hooks: tuple[str, ...]


def load(settings: ServerSettings) -> tuple[LoadedPlugin, ...]:
    """Import, check and make the plugins that the settings name, in their order.

    All are imported and all tables parsed before the first is made.

    Raises:
        SettingsError: a name or a table that cannot be used.
        PluginError: a plugin that failed.
    """
    installed = discover()
    _refuse_lost_tables(settings, installed)
    imported = [_import(_find(name, settings, installed)) for name in settings.plugins]
    parsed = [_parse(plugin, settings) for plugin in imported]
    return tuple(_make(plugin, table) for plugin, table in zip(imported, parsed, strict=True))


def parsed_settings(settings: ServerSettings) -> dict[str, BaseModel]:
    """The parsed settings of each plugin in use that has any, by name; raises as ``load`` does."""
    installed = discover()
    _refuse_lost_tables(settings, installed)
    imported = [_import(_find(name, settings, installed)) for name in settings.plugins]
    parsed = {plugin.found.name: _parse(plugin, settings) for plugin in imported}
    return {name: table for name, table in parsed.items() if table is not None}


def survey(settings: ServerSettings) -> tuple[PluginInfo, ...]:
    """Every installed plugin, those in use first and in their order, tried one by one; raises nothing of theirs."""
    installed = discover()
    rows = [_try(name, settings, installed) for name in settings.plugins]
    others = (found for name, group in installed.items() if name not in settings.plugins for found in group)
    return (*rows, *available(others))


def available(others: Iterable[Found]) -> tuple[PluginInfo, ...]:
    """Rows of plugins that are installed and not in use."""
    return tuple(PluginInfo(found.name, found.distribution, found.version, (), "available") for found in others)


def _try(name: str, settings: ServerSettings, installed: Mapping[str, tuple[Found, ...]]) -> PluginInfo:
    shipped = installed[name][0] if name in installed else None
    distribution, version = (shipped.distribution, shipped.version) if shipped else (UNKNOWN, UNKNOWN)
    hooks: tuple[str, ...] = ()
    try:
        imported = _import(_find(name, settings, installed))
        hooks = imported.hooks
        _make(imported, _parse(imported, settings))
    except TfError as error:
        return PluginInfo(name, distribution, version, hooks, "failed", str(error))
    return PluginInfo(name, distribution, version, hooks, "loaded")


def _find(name: str, settings: ServerSettings, installed: Mapping[str, tuple[Found, ...]]) -> Found:
    group = installed.get(name, ())
    if len(group) == 1:
        return group[0]
    origin = settings.named("add_plugins" if name in settings.add_plugins else "use_plugins")
    if not group:
        hint = did_you_mean(name, installed, f"installed are: {', '.join(installed) or 'none'}")
        raise SettingsError(f"{origin}: no installed plugin is named {name!r}\nhint: {hint}")
    both = " and ".join(f"{found.distribution} {found.version} ({found.entry.value})" for found in group)
    raise SettingsError(f"{origin}: two plugins are named {name!r}: {both}\nhint: uninstall one of them")


def _import(found: Found) -> _Imported:
    try:
        named = found.entry.load()
    except FAILURES as error:
        hint = f"reinstall or upgrade {found.distribution}, or take {found.name!r} out of use"
        raise found.failed("import", f"{found.entry.value}: {one_line(error)}", hint) from error
    return _Imported(found, *checked(found, named))


def _parse(imported: _Imported, settings: ServerSettings) -> BaseModel | None:
    table = settings.plugin_tables.get(imported.found.name, {})
    return parse(imported.found, imported.plugin, table, settings.file)


def _make(imported: _Imported, table: BaseModel | None) -> LoadedPlugin:
    found = imported.found
    try:
        plugin = imported.plugin(table)
    except PluginError:
        raise
    except FAILURES as error:
        cause, _, said = str(error).partition("\nhint: ") if isinstance(error, TfError) else (one_line(error), "", "")
        hint = said or f"see [plugins.{found.name}] in the settings, or take {found.name!r} out of use"
        raise found.failed("start", cause, hint) from error
    return LoadedPlugin(found, plugin, imported.hooks)


def _refuse_lost_tables(settings: ServerSettings, installed: Mapping[str, tuple[Found, ...]]) -> None:
    """A table of no plugin is a slip; one of an installed plugin that is not in use is worth a line."""
    for name in settings.plugin_tables:
        if name in settings.plugins:
            continue
        near = nearest(name, (*settings.plugins, *installed))
        where = f"{settings.file}: plugins.{name}"
        if name in installed:
            log.warning("%s is not read: plugin %r is not in use", where, name)
            continue
        hint = f"did you mean {near}?" if near else f"the plugins in use are {', '.join(settings.plugins)}"
        raise SettingsError(f"{where} is the table of no installed plugin\nhint: {hint}")


def one_line(error: BaseException) -> str:
    """An exception as one line, with the place that raised it, where that is not the host's own check of an answer."""
    lines = str(error).splitlines()
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    if not frames or Path(frames[-1].filename).is_relative_to(_HOST):
        return said
    return f"{said} (line {frames[-1].lineno} of {frames[-1].filename})"

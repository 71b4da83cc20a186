"""Checks for every plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from tf_plugins.hookspecs import ENTRY_POINT_GROUP
from tf_plugins.plugin import API_VERSION, Plugin
from tf_plugins.testing.engine import Engine
from tf_plugins.testing.hooks import Hooks


class PluginChecks:
    """Is it a plugin at all?

    Attributes:
        plugin: the class that the entry point names.
        settings: a settings table for it, as a settings file would give it.
    """

    plugin: ClassVar[type[Plugin]]
    settings: ClassVar[Mapping[str, Any]] = {}

    def make(self) -> Any:
        """The plugin with ``settings``, as the host makes it."""
        model = self.plugin.Settings
        return self.plugin(None if model is None else model.model_validate(dict(self.settings)))

    def hooks(self) -> Hooks:
        """The hooks of a plugin that ``make`` made, to be called as the host calls them."""
        return Hooks(self.make())

    def test_it_is_a_plugin_class(self) -> None:
        """The entry point names a subclass of ``tf_plugins.Plugin``."""
        assert isinstance(self.plugin, type), f"{self.plugin!r} is no class"
        assert issubclass(self.plugin, Plugin), f"{self.plugin.__name__} is no subclass of tf_plugins.Plugin"

    def test_it_states_the_api_version(self) -> None:
        """``api_version`` is written in the class, as the version that it was written for."""
        assert self.plugin.api_version == API_VERSION, f"write api_version = {API_VERSION} in the class"

    def test_it_has_a_hook(self) -> None:
        """At least one method is marked ``@hookimpl``."""
        assert _hooks(self.plugin), "no method is marked @hookimpl, so the plugin would never be called"

    def test_its_hooks_fit_their_specifications(self) -> None:
        """Every marked method names a hook and takes its parameters, or fewer."""
        self.hooks()

    def test_unknown_settings_are_an_error(self) -> None:
        """A key that it does not know is refused, so that a misspelled one is seen."""
        model = self.plugin.Settings
        if model is None:
            return
        table = {**self.settings, "no_such_setting": 1}
        try:
            model.model_validate(table)
        except ValueError:
            return
        pytest.fail(f"{model.__name__} takes the unknown key no_such_setting: forbid extra keys")

    def test_settings_are_described(self) -> None:
        """Every setting has a description, for people and for the settings reference."""
        model = self.plugin.Settings
        fields = {} if model is None else model.model_fields
        lacking = [name for name, field in fields.items() if not field.description]
        assert not lacking, f"settings without a description: {', '.join(lacking)}"

    def test_the_host_starts_with_it(self, tf_engine: Engine) -> None:
        """The host imports it, parses its table, makes it and starts."""
        with tf_engine(self.plugin, settings=self.settings) as server:
            assert server.reply("abcabc", max_tokens=3).tokens


def _hooks(plugin: type[Plugin]) -> list[str]:
    return [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), f"{ENTRY_POINT_GROUP}_impl")]

"""Public plugin API of tf-plugins.

A plugin is a subclass of ``Plugin`` with methods marked ``@hookimpl``, named by an entry point of group
``tf_plugins``. The hooks are in ``tf_plugins.hookspecs``, what they exchange in ``tf_plugins.types``, and the
errors in ``tf_plugins.errors``. This package imports the standard library and pluggy, no more.
"""

from tf_plugins.errors import PluginError, Refused, SettingsError, TfError
from tf_plugins.hookspecs import ENTRY_POINT_GROUP, hookimpl, hookspec
from tf_plugins.plugin import API_VERSION, Plugin
from tf_plugins.rows import RowPlan

__all__ = [
    "API_VERSION",
    "ENTRY_POINT_GROUP",
    "Plugin",
    "PluginError",
    "Refused",
    "RowPlan",
    "SettingsError",
    "TfError",
    "hookimpl",
    "hookspec",
]

"""The plugins in use: found, checked, made, and asked through one typed facade."""

from tf_host.plugins.discover import Found, discover
from tf_host.plugins.facade import Plugins
from tf_host.plugins.info import PluginInfo
from tf_host.plugins.load import LoadedPlugin, load, parsed_settings, survey

__all__ = ["Found", "LoadedPlugin", "PluginInfo", "Plugins", "discover", "load", "parsed_settings", "survey"]

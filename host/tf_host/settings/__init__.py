"""Settings: flags over ``TF_*`` environment over a TOML file."""

from tf_host.settings.load import Invocation, load
from tf_host.settings.model import DEFAULT_PLUGINS, ServerSettings
from tf_host.settings.origin import Origin

__all__ = ["DEFAULT_PLUGINS", "Invocation", "Origin", "ServerSettings", "load"]

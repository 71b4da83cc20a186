"""Start-up: from settings to running lanes, and the server around them."""

from tf_host.start.composed import Composed
from tf_host.start.composing import compose
from tf_host.start.serving import serve

__all__ = ["Composed", "compose", "serve"]

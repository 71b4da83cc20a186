"""From what the user wrote to checkpoints whose facts are known, before any weight is read."""

from tf_host.checkpoints.pair import Pair, resolve_pair
from tf_host.checkpoints.resolve import Source, resolve

__all__ = ["Pair", "Source", "resolve", "resolve_pair"]

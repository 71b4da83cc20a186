"""From what the user wrote to checkpoints whose facts are known, before any weight is read."""

from tf_host.checkpoints.pair import Pair, resolve_pair
from tf_host.checkpoints.resolve import Source, resolve
from tf_host.checkpoints.untaken import drafter_untaken

__all__ = ["Pair", "Source", "drafter_untaken", "resolve", "resolve_pair"]

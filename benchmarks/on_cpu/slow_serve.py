"""``tf-serve`` with a drafter that sleeps: seconds a step, then the options of ``tf-serve``."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Sequence
from typing import Any

from tf_llama.drafter.plugin import LlamaDrafterPlugin


def main() -> int:
    """Make every proposer of the drafter plugin slow, then serve."""
    seconds = float(sys.argv[1])
    proposers = LlamaDrafterPlugin.proposers

    @functools.wraps(proposers)
    def slow_proposers(self: Any, target: Any) -> Any:
        made = proposers(self, target)
        for kind in {type(proposer) for proposer in made}:
            _slow_down(kind, seconds)
        return made

    LlamaDrafterPlugin.proposers = slow_proposers  # type: ignore[method-assign]

    from tf_host.cli.serve import main as serve

    return serve(sys.argv[2:])


def _slow_down(kind: Any, seconds: float) -> None:
    propose = kind.propose

    def slowly(self: Any, requests: Sequence[Any]) -> Any:
        time.sleep(seconds * max(request.most for request in requests))
        return propose(self, requests)

    kind.propose = slowly


if __name__ == "__main__":
    sys.exit(main())

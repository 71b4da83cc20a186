"""The plugin `llama-drafter`: a smaller Llama drafts for the served one."""

from __future__ import annotations

from collections.abc import Sequence

from tf_llama.drafter.pair import FAMILY, refuse_pair
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Proposer, Refusal, StartFacts, TargetFacts


class LlamaDrafterPlugin(Plugin):
    """Checks the pair before anything loads, then loads the checkpoint given with `--drafter`."""

    api_version = 1
    drafts_with = frozenset({FAMILY})

    @hookimpl
    def refuse_start(self, start: StartFacts) -> Refusal | None:
        return refuse_pair(start.target, start.drafter) if start.drafter else None

    @hookimpl
    def proposers(self, target: TargetFacts) -> Sequence[Proposer]:
        drafter = target.drafter
        if drafter is None or {drafter.family, target.checkpoint.family} != {FAMILY}:
            return ()
        # Imported here: the host loads the BLAS before anything may import MLX.
        from tf_llama.drafter.start import start
        from tf_llama.loading import load_module

        return (start(load_module(drafter)[0], drafter, target),)

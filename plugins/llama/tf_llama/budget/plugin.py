"""The plugin `llama-budget`: answers the admission hook."""

from __future__ import annotations

import logging

from tf_llama.budget.admission import StreamAdmission
from tf_llama.budget.sizes import gib
from tf_llama.budget.sizing import BudgetSettings, size
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Admission, Resources

log = logging.getLogger(__name__)


class LlamaBudgetPlugin(Plugin):
    """One budget for streams, drafter caches and kept prompt states."""

    api_version = 1
    Settings = BudgetSettings

    @hookimpl
    def admission(self, resources: Resources) -> Admission:
        """Size the budget, tell MLX about it, and hand out the object that admits streams."""
        # Imported here: the host loads the BLAS before anything may import MLX.
        import mlx.core as mx

        sizing = size(resources, self.settings or BudgetSettings())
        mx.set_memory_limit(sizing.total)
        log.info("%s", sizing)
        if sizing.total > resources.memory:
            text = "--memory-gib is past the %s that the device has; kept prompts will fill it, and may end the server"
            log.warning(text, gib(resources.memory))
        return StreamAdmission(
            budget=sizing.budget,
            parallel=sizing.parallel,
            bytes_for=resources.bytes_for,
            shedding=resources.shedding,
            states=resources.states,
            states_limit=resources.states_limit,
        )

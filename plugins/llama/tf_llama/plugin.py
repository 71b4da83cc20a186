"""The plugin ``llama``: gives the host the Llama family."""

from __future__ import annotations

from collections.abc import Sequence

from tf_llama.family import LlamaFamily
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Family


class LlamaPlugin(Plugin):
    """Serves checkpoints of ``model_type: llama``."""

    api_version = 1

    @hookimpl
    def families(self) -> Sequence[Family]:
        return [LlamaFamily()]

"""The Llama drafter runs the proposers' checks on a tiny random Llama."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import ClassVar

import mlx.core as mx
import pytest

from tests.drafter import tiny
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_plugins.testing import ProposerChecks
from tf_plugins.types import Proposer, TargetFacts


class TestLlamaDrafter(ProposerChecks):
    plugin = LlamaDrafterPlugin
    contexts: ClassVar = (range(3, 40), (5,), (7, 8, 9) * 12)

    @pytest.fixture(autouse=True)
    def _no_reuse(self) -> Iterator[None]:
        """MLX hands a freed buffer out again for a smaller array and counts all of it: not while bytes are counted."""
        before = mx.set_cache_limit(0)
        yield
        mx.set_cache_limit(before)

    def target(self) -> TargetFacts:
        return tiny.target()

    def make_proposer(self) -> Proposer:
        return tiny.drafter()

    def held(self) -> int:
        gc.collect()
        mx.clear_cache()
        return mx.get_active_memory()

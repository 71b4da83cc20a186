"""Tiny models of two kinds, with the band that this backend gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import mlx.core as mx
import pytest

from tests.llama.tiny import checkpoint, ids, load, quiet
from tf_host.exact import probe
from tf_llama.model import LlamaModel
from tf_plugins import RowPlan
from tf_plugins.types import Device

KINDS = {
    "gqa": (mx.float32, {}),
    "mha, llama3, bf16": (
        mx.bfloat16,
        {
            "num_key_value_heads": 4,
            "tie_word_embeddings": False,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        },
    ),
}


@pytest.fixture(scope="session", params=[*KINDS, "form of a GPU"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, device: Device
) -> Iterator[LlamaModel]:
    """A tiny model with its proven plan in use."""
    dtype, changes = KINDS.get(request.param, (mx.float32, {}))
    if request.param not in KINDS:
        # Run by whatever is here, with prompt chunks as short as a CPU's.
        device = Device("gpu", "cuda", request.param)
    made = load(checkpoint(tmp_path_factory.mktemp("tiny"), dtype, **changes), device)
    base = replace(RowPlan.for_device(device.kind, made.checkpoint.context), grid=64)
    verdict = probe(made, base, device.kind, "tests", ids(250), quiet)
    assert verdict.exact, verdict
    made.use(verdict.plan(base))
    yield made
    made.release()

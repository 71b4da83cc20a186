"""The drafter's forward through the CUDA kernels: what MLX's own drafts, in any order of reads, steps and flushes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.drafter import tiny
from tests.drafter.tiny import request
from tests.llama.reference import H200, ReferenceKernels
from tf_llama.drafter import cuda_form
from tf_llama.drafter import start as starting
from tf_llama.drafter.cuda_form import CudaForward
from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.drafter.start import start
from tf_plugins.types import Checkpoint

SHAPE: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 64,
}


def facts() -> Checkpoint:
    raw = tiny.args(**SHAPE) | {"architectures": ["LlamaForCausalLM"]}
    return tiny.checkpoint(dtype="bfloat16", config=raw, folder=Path("tiny"))


def made() -> LlamaDrafter:
    return start(tiny.module(**SHAPE), facts(), tiny.target("gpu"))


@pytest.fixture
def through_kernels(monkeypatch: pytest.MonkeyPatch) -> LlamaDrafter:
    """On a CUDA device the kernels themselves, elsewhere MLX in their place."""
    if not mx.cuda.is_available():
        monkeypatch.setattr(starting, "processor", lambda: H200)
        monkeypatch.setattr(cuda_form, "Kernels", ReferenceKernels)
    drafter = made()
    assert isinstance(drafter._running._forward, CudaForward)
    return drafter


@pytest.fixture
def through_mlx(monkeypatch: pytest.MonkeyPatch) -> LlamaDrafter:
    monkeypatch.setattr(starting, "processor", lambda: None)
    drafter = made()
    assert not isinstance(drafter._running._forward, CudaForward)
    monkeypatch.undo()
    return drafter


def test_drafts_equal_those_of_mlx(through_mlx: LlamaDrafter, through_kernels: LlamaDrafter) -> None:
    """Two streams with rejected drafts, long reads, and more rounds than a tail holds."""
    both = (through_mlx, through_kernels)
    contexts = {1: [(7 * at) % 90 + 3 for at in range(40)], 2: [(11 * at) % 90 + 3 for at in range(90)]}
    for drafter in both:
        for stream, context in contexts.items():
            drafter.open(stream, context, 600)
    agreed = drafted = 0
    for step in range(60):
        asked = [
            request(stream, context, 1 + (step + stream) % 4, seed=3, temperature=0.7 * (stream == 2))
            for stream, context in contexts.items()
        ]
        found = [drafter.propose(asked) for drafter in both]
        for theirs, ours in zip(*found, strict=True):
            assert theirs is not None
            assert ours is not None
            drafted += len(theirs.tokens)
            agreed += sum(a == b for a, b in zip(theirs.tokens, ours.tokens, strict=False))
        for at, context in enumerate(contexts.values()):
            draft = found[0][at]
            assert draft is not None
            kept = list(draft.tokens[: step % 3])
            context += [*kept, (13 * step + at) % 90 + 3]
    assert drafted > 200
    assert agreed >= 0.94 * drafted  # bfloat16 rounds at other places


def test_a_forward_that_computes_otherwise_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(starting, "processor", lambda: H200)
    right = ReferenceKernels.linear
    monkeypatch.setattr(ReferenceKernels, "linear", lambda *given: right(*given) * 1.1)
    monkeypatch.setattr(cuda_form, "Kernels", ReferenceKernels)
    assert not isinstance(made()._running._forward, CudaForward)
    assert "the drafter runs without the CUDA kernels of tf-plugins: its logits are off by" in caplog.text


def test_release_frees_the_weights(through_kernels: LlamaDrafter) -> None:
    mx.clear_cache()
    before = mx.get_active_memory()
    size = sum(array.nbytes for array in through_kernels._running._form.weights.arrays())
    through_kernels.release()
    assert before - mx.get_active_memory() > 0.9 * size

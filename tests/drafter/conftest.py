"""The same drafter through the kernel and through MLX."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cuda import ON_CUDA
from tests.drafter.launched import made
from tests.drafter.reference import ReferenceKernel
from tests.llama.reference import H200
from tf_llama.drafter import start as starting
from tf_llama.drafter.cuda import chain as cuda
from tf_llama.drafter.cuda.chain import CudaChain
from tf_llama.drafter.proposer import LlamaDrafter


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[], LlamaDrafter]:
    """On a CUDA device the kernel itself, elsewhere MLX in its place."""

    def drafter() -> LlamaDrafter:
        if not ON_CUDA:
            monkeypatch.setattr(starting, "processor", lambda: H200)
            monkeypatch.setattr(cuda, "DraftKernel", ReferenceKernel)
        return made()

    return drafter


@pytest.fixture
def through_kernel(kernel: Callable[[], LlamaDrafter]) -> LlamaDrafter:
    drafter = kernel()
    assert isinstance(drafter._running, CudaChain)
    return drafter


@pytest.fixture
def through_mlx(monkeypatch: pytest.MonkeyPatch) -> LlamaDrafter:
    with monkeypatch.context() as patch:
        patch.setattr(starting, "processor", lambda: None)
        drafter = made()
    assert not isinstance(drafter._running, CudaChain)
    return drafter

"""From a loaded module to a drafter that is ready, or to nothing at all."""

from __future__ import annotations

import traceback
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.drafter.chain import Chain
from tf_llama.drafter.cpu_form import CpuForm
from tf_llama.drafter.cuda.chain import chain as cuda_chain
from tf_llama.drafter.cuda.chain import possible
from tf_llama.drafter.cuda.form import CudaForm
from tf_llama.drafter.form import Form
from tf_llama.drafter.forward import Forward
from tf_llama.drafter.gpu_form import GpuForm
from tf_llama.drafter.proposer import LlamaDrafter
from tf_llama.rows.cuda.processor import processor
from tf_plugins import Refused
from tf_plugins.types import Checkpoint, DraftRequest, Refusal, TargetFacts

__all__ = ["start", "warm"]

PROMPT = 80
"""Tokens of the prompt that a drafter is warmed with: more than one chunk of it is read, on a CPU."""

STREAMS = (-1, -2)
"""Ids that no stream of a server has."""


def start(module: Any, checkpoint: Checkpoint, target: TargetFacts) -> LlamaDrafter:
    """A warm drafter, from mlx-lm's module, whose weights may still be unread.

    Owns the module from the call: whatever this raises, no weights are left, however long the error is kept.

    Raises:
        Refused: the weights compute no numbers.
    """
    chain = drafter = None
    try:
        module.set_dtype(getattr(mx, checkpoint.dtype))
        chain = _chain(module, checkpoint, target)
        drafter = LlamaDrafter(chain, checkpoint.name, checkpoint.context, target.parallel)
        warm(drafter, chain.ids, min(checkpoint.context, 2 * PROMPT))
        if not chain.finite():
            raise Refused(no_numbers(checkpoint))
        return drafter
    except BaseException as error:
        for part in module.modules():
            part.clear()  # an error may hold on to one of them
        if drafter is not None:
            drafter.release()
        elif chain is not None:
            chain.release()
        del module, chain, drafter, part
        _let_go(error)
        raise


def _chain(module: Any, checkpoint: Checkpoint, target: TargetFacts) -> Chain:
    """In the form of the target's device, with the module's weights."""
    ids = min(target.vocab, checkpoint.vocab)
    if target.device.kind == "cpu":
        return _stepped(CpuForm(module, ids), target)
    device = processor() if target.device.backend == "cuda" else None
    if device:
        config = LlamaConfig.parse(checkpoint.config, checkpoint.folder / "config.json")
        if possible(config, getattr(mx, checkpoint.dtype), device):
            return cuda_chain(CudaForm(module, ids), config, device, target.noise)
    return _stepped(GpuForm(module, ids), target)


def _stepped(form: Form, target: TargetFacts) -> Chain:
    return Chain(form, Forward(form), target.noise)


def warm(drafter: LlamaDrafter, ids: int, context: int) -> None:
    """Run what serving runs, alone and for two streams: twice, since the first time costs more and is not counted."""
    prompt = [token % ids for token in range(min(PROMPT, context // 2))]
    for _ in range(2):
        drafter.forget_costs()
        for stream in STREAMS:
            drafter.open(stream, prompt, context)
        tokens = prompt
        for most, together in ((2, 1), (4, 1), (4, 2), (4, 2)):
            tokens = [*tokens, 0]
            drafter.propose([DraftRequest(stream, tokens, most, 0, 0.0, len(tokens)) for stream in STREAMS[:together]])
        for stream in STREAMS:
            drafter.close(stream)
        drafter.shed(0)


def no_numbers(checkpoint: Checkpoint) -> Refusal:
    """Weights that make infinities or NaN."""
    return Refusal(
        "drafter_not_finite",
        f"the drafter {checkpoint.name} computes values that are no numbers",
        f"fetch {checkpoint.folder} again, or start without --drafter",
        param="drafter",
    )


def _let_go(error: BaseException | None) -> None:
    """Empty the frames that an error and its causes keep: their locals hold weights."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__

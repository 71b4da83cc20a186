"""A drafter on CUDA: single rows through the kernels that serve the target, a third of the operations of MLX's own.

A step of a small drafter takes as long as Python takes to ask for it, so fewer operations are a faster step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.drafter.forward import Forward, Part
from tf_llama.drafter.gpu_form import GpuForm
from tf_llama.drafter.slot import Slot
from tf_llama.drafter.weights import Layer
from tf_llama.rows.cuda.form import fits, turned
from tf_llama.rows.cuda.kernels import Kernels
from tf_llama.rows.cuda.plan import ROWS, slices
from tf_llama.rows.cuda.processor import Processor

__all__ = ["CudaForm", "CudaForward", "forward", "possible"]

_LOG = logging.getLogger(__name__)
_NEAR = 0.03


class CudaForm(GpuForm):
    """MLX's operations with the kernels' angles."""

    def __init__(self, model: Any, ids: int, device: Processor) -> None:
        super().__init__(model, ids)
        self.kernels = Kernels(device, self._heads, self._kv_heads, self._size, self._eps)

    def angles(self, positions: mx.array) -> mx.array:
        return turned(self._rope, positions.tolist(), self._size)  # type: ignore[arg-type]

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        queries, written = self.kernels.rotate(rows, angles)
        return queries * self._size**-0.5, written


class CudaForward(Forward):
    """Up to 16 rows through the kernels, more through MLX."""

    def __init__(self, form: CudaForm) -> None:
        super().__init__(form)
        self._kernels = form.kernels
        self._layers = [_arrays(layer) for layer in form.weights.layers]
        self._head = form.weights.head.T
        mx.eval(self._layers, self._head)
        # Compiled over the kernels alone: a function that held the weights would keep them when the drafter is freed.
        self._between = mx.compile(partial(_between, form.kernels))

    def rows(self, ids: mx.array, angles: mx.array, parts: Sequence[Part]) -> mx.array:
        if ids.shape[0] > ROWS:
            return super().rows(ids, angles, parts)
        layers, last = self._layers, len(self._layers) - 1
        rows = self._weights.table[ids]
        asked = self._kernels.linear(self._form.norm(rows, layers[0]["attend_norm"]), layers[0]["attend"])
        queries, written = self._kernels.rotate(asked, angles)
        places = [_places(part) for part in parts]
        for at, layer in enumerate(layers):
            attended = self._attended(at, queries, written, parts, places)
            if at < last:
                rows, queries, written = self._between(rows, attended, angles, layer, layers[at + 1])
        for part in parts:
            part.at += part.rows
            part.start = mx.array([part.at])
        return _block(self._kernels, rows, attended, layers[last], self._weights.norm)[0]

    def logits(self, rows: mx.array) -> mx.array:
        if rows.shape[0] > ROWS:
            return super().logits(rows)
        return self._kernels.linear(self._form.norm(rows, self._weights.norm), self._head)

    def _attended(
        self,
        layer: int,
        queries: mx.array,
        written: mx.array,
        parts: Sequence[Part],
        places: Sequence[tuple[mx.array, mx.array, int]],
    ) -> mx.array:
        outputs, begin = [], 0
        for part, (positions, base, keys) in zip(parts, places, strict=True):
            end = begin + part.rows
            tail = part.tail[layer]
            tail[:, part.at : part.at + part.rows] = written[begin:end].swapaxes(0, 1)
            cache = part.caches[layer] if part.caches else tail
            outputs.append(self._kernels.attend(queries[begin:end], cache, positions, keys, tail, base))
            begin = end
        return outputs[0] if len(outputs) == 1 else mx.concatenate(outputs)


def _between(
    kernels: Kernels,
    rows: mx.array,
    attended: mx.array,
    angles: mx.array,
    layer: dict[str, mx.array],
    following: dict[str, mx.array],
) -> tuple[mx.array, mx.array, mx.array]:
    """From one layer's attention to the next one's."""
    rows, normed = _block(kernels, rows, attended, layer, following["attend_norm"])
    return rows, *kernels.rotate(kernels.linear(normed, following["attend"]), angles)


def _block(
    kernels: Kernels, rows: mx.array, attended: mx.array, layer: dict[str, mx.array], norm: mx.array
) -> tuple[mx.array, mx.array]:
    rows, normed = kernels.add_and_norm(rows, kernels.parts(attended, layer["output"]), layer["mlp_norm"])
    inner = kernels.gated(normed, layer["gate_up"])
    return kernels.add_and_norm(rows, kernels.parts(inner, layer["down"]), norm)


def forward(form: CudaForm) -> Forward:
    """Through the kernels where they compute what MLX computes, else through MLX."""
    ours, theirs = CudaForward(form), Forward(form)
    try:
        off = _off(form, ours, theirs)
    except Exception as error:
        off = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if off:
        _LOG.warning("the drafter runs without the CUDA kernels of tf-plugins: %s", off)
        return theirs
    return ours


def possible(config: LlamaConfig, dtype: mx.Dtype, device: Processor) -> bool:
    """Whether a drafter of this shape runs through the kernels."""
    return fits(config, dtype, device) and slices(config.hidden, device.shared) == 1


def _off(form: CudaForm, ours: Forward, theirs: Forward) -> str:
    """How far one token's logits, and the next one's, are from MLX's; empty where they are near."""
    found = []
    for forward in (ours, theirs):
        part = Part.of(Slot(form.weights, 1, form.tail), 1)
        steps = []
        for position in range(3):
            part.rows = 1
            rows = forward.rows(mx.array([position + 5]), form.angles(mx.array([position])), [part])
            steps.append(forward.logits(rows))
        found.append(mx.concatenate(steps).astype(mx.float32))
    off, size = mx.linalg.norm(found[0] - found[1]).item(), mx.linalg.norm(found[1]).item()
    return "" if off <= _NEAR * size else f"its logits are off by {off:.2g} of {size:.2g}"


def _places(part: Part) -> tuple[mx.array, mx.array, int]:
    """Positions of a part's rows, where its tail begins, and how many keys its last row sees."""
    start = part.base + part.at
    positions = mx.array(list(range(start, start + part.rows)), mx.int32)
    return positions, mx.array([part.base], mx.int32), start + part.rows


def _arrays(layer: Layer) -> dict[str, Any]:
    """A block as a plain container that ``mx.compile`` takes, weights ``[out, in]``."""
    return {
        "attend_norm": layer.attend_norm,
        "attend": layer.attend.weight.T,
        "output": layer.output.weight.T,
        "mlp_norm": layer.mlp_norm,
        "gate_up": layer.gate_up.weight.T,
        "down": layer.down.weight.T,
    }

"""A drafter's weights for the kernel: all layers of a kind in one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from tf_llama.drafter.gpu_form import GpuForm
from tf_llama.drafter.weights import Layer, Linear
from tf_llama.rows.cuda.turns import Turns

__all__ = ["CudaForm", "Stacks"]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Weights ``[layers, out, in]`` and norms ``[layers, D]``; table and head ``[ids, D]``."""

    table: mx.array
    attend_norms: mx.array
    attend: mx.array
    output: mx.array
    mlp_norms: mx.array
    gate_up: mx.array
    down: mx.array
    norm: mx.array
    head: mx.array

    def arrays(self) -> list[mx.array]:
        return [getattr(self, name) for name in self.__slots__]


class CudaForm(GpuForm):
    """MLX's operations, on views of the stacked weights; the kernel reads the stacks."""

    def __init__(self, model: Any, ids: int) -> None:
        self._stacked: dict[str, mx.array] = {}
        super().__init__(model, ids)
        weights = self.weights
        self.stacks = Stacks(weights.table, norm=weights.norm, head=weights.head.T, **self._stacked)
        mx.eval(self.stacks.arrays())

    def frequencies(self) -> mx.array:
        """Float32 ``[head size / 2]``: the angles of position 1, whatever scaling the rope has; all are below pi."""
        cosines, sines = mx.split(Turns(self._rope, self._size).up_to(1)[1], 2)
        return mx.arctan2(sines, cosines)

    def _layers(self, blocks: list[Any]) -> tuple[Layer, ...]:
        stacked, count = self._stacked, len(blocks)
        for at, block in enumerate(blocks):
            layer = self._layer(block)
            assert layer.attend_norm is not None  # the GPU's form folds no norm into a product
            assert layer.mlp_norm is not None
            blocks[at] = block = None
            arrays = {
                "attend_norms": layer.attend_norm,
                "attend": layer.attend.weight.T,
                "output": layer.output.weight.T,
                "mlp_norms": layer.mlp_norm,
                "gate_up": layer.gate_up.weight.T,
                "down": layer.down.weight.T,
            }
            for name, array in arrays.items():
                if not at:
                    stacked[name] = mx.zeros((count, *array.shape), array.dtype)
                stacked[name][at] = array
            mx.eval(stacked)  # one layer at a time is there twice
        return tuple(map(self._view, range(count)))

    def _view(self, at: int) -> Layer:
        arrays = {name: stack[at] for name, stack in self._stacked.items()}
        attend, output, gate_up, down = (Linear(arrays[name].T) for name in ("attend", "output", "gate_up", "down"))
        return Layer(attend, output, gate_up, down, arrays["attend_norms"], arrays["mlp_norms"])

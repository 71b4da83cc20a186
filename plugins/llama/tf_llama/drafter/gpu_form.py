"""A drafter on a GPU: the checkpoint's own dtype and MLX's kernels."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.activations import swiglu

from tf_llama.drafter.form import shape, taken
from tf_llama.drafter.weights import Layer, Linear, Weights, linear

__all__ = ["GpuForm"]


class GpuForm:
    """The checkpoint's own dtype, MLX's kernels."""

    tail = 256
    ahead = 1  # where waiting costs more than a step

    def __init__(self, model: Any, ids: int) -> None:
        inner = model.model
        self._heads, self._kv_heads, self._size = shape(model.args)
        self._eps = model.args.rms_norm_eps
        self._rope = inner.layers[0].self_attn.rope
        table = inner.embed_tokens.weight
        head = (table if model.args.tie_word_embeddings else model.lm_head.weight)[:ids].T
        mx.eval(table, head, inner.norm.weight)
        layers = self._layers(inner.layers)
        self.weights = Weights(self._heads, self._kv_heads, self._size, table, layers, inner.norm.weight, head)

    def _layers(self, blocks: list[Any]) -> tuple[Layer, ...]:
        return taken(blocks, self._layer)

    def _layer(self, block: Any) -> Layer:
        attention, mlp = block.self_attn, block.mlp
        groups = (
            [attention.q_proj, attention.k_proj, attention.v_proj],
            [attention.o_proj],
            [mlp.gate_proj, mlp.up_proj],
            [mlp.down_proj],
        )
        attend, output, gate_up, down = (Linear(weight.T, bias) for weight, bias in map(linear, groups))
        norms = block.input_layernorm.weight, block.post_attention_layernorm.weight
        return Layer(attend, output, gate_up, down, *norms)

    def norm(self, rows: mx.array, weight: mx.array | None) -> mx.array:
        return mx.fast.rms_norm(rows, weight, self._eps)

    def angles(self, positions: mx.array) -> mx.array:
        return positions

    def rotate(self, rows: mx.array, angles: mx.array) -> tuple[mx.array, mx.array]:
        parts = rows.reshape(rows.shape[0], -1, self._size)
        turned = self._heads + self._kv_heads
        rotated = self._rope(parts[:, :turned, None], offset=angles)[:, :, 0]
        keys = mx.concatenate([rotated[:, self._heads :], parts[:, turned:]], axis=1)
        return rotated[:, : self._heads] * self._size**-0.5, keys

    def softmax(self, scores: mx.array) -> mx.array:
        return mx.softmax(scores, axis=-1, precise=True)

    def gate(self, rows: mx.array) -> mx.array:
        gated: mx.array = swiglu(*mx.split(rows, 2, axis=-1))
        return gated

    def shares(self, logits: mx.array, tokens: mx.array) -> mx.array:
        shares = mx.softmax(logits.astype(mx.float32), axis=-1)
        return mx.take_along_axis(shares, tokens[:, None], axis=-1)[:, 0]

"""The draft kernel in MLX's own operations, pass by pass, so that what stands around it runs anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.drafter.cuda import plan
from tf_llama.drafter.cuda.form import Stacks
from tf_llama.drafter.cuda.kernel import Given
from tf_llama.drafter.cuda.schedule import Row
from tf_llama.rows.cuda.processor import Processor


class ReferenceKernel:
    """As ``tf_llama.drafter.cuda.kernel.DraftKernel``, and as strict about what it is given.

    ``values`` has what the last launch chose ids by, by stream and step, and ``shares`` all ids' probabilities.
    """

    gives_up = False

    def __init__(self, device: Processor, config: LlamaConfig, stacks: Stacks, frequencies: mx.array) -> None:
        self.rows = plan.rows(config, device.shared) or 0
        self.launches: list[list[list[Row]]] = []
        self.values: dict[tuple[int, int], list[float]] = {}
        self.shares: dict[tuple[int, int], list[float]] = {}
        assert frequencies.shape == (config.head_dim // 2,)
        assert frequencies.dtype == mx.float32
        self._config, self._stacks, self._frequencies = config, stacks, frequencies

    def __call__(self, passes: Sequence[Sequence[Row]], streams: Sequence[Given]) -> tuple[mx.array, list[mx.array]]:
        config = self._config
        assert 1 <= len(streams) <= plan.STREAMS
        self.launches.append([list(one) for one in passes])
        self.values.clear()
        self.shares.clear()
        steps = 1 + max(row.draw for one in passes for row in one)
        lanes = config.layers * 2 * config.kv_heads
        for stream in streams:
            assert stream.cache.shape[::2] == (lanes, config.head_dim)
            assert (stream.noise is not None) == bool(stream.temperature)
        self._written = [mx.zeros((lanes, plan.TAIL, config.head_dim), mx.bfloat16) for _ in streams]
        drafts = [[[-1] * plan.BEST for _ in range(steps)] for _ in range(plan.STREAMS)]
        shares = [[[0.0] * plan.BEST for _ in range(steps)] for _ in range(plan.STREAMS)]
        last, stands = [0] * len(streams), [1.0] * len(streams)
        for rows in passes:
            assert 1 <= len(rows) <= self.rows
            if all(row.token < 0 and stands[row.stream] < streams[row.stream].least for row in rows):
                break
            hidden = [self._stacks.table[last[row.stream] if row.token < 0 else row.token] for row in rows]
            found = self._forward(mx.stack(hidden).astype(mx.float32), rows, streams)
            for row, logits in zip(rows, found, strict=True):
                if row.draw >= 0:
                    stream, known = streams[row.stream], _softmax(logits).tolist()
                    if stream.noise is not None:
                        logits = logits * (1 / stream.temperature) + stream.noise[row.draw]
                    values = self.values[row.stream, row.draw] = logits.tolist()
                    self.shares[row.stream, row.draw] = known
                    best = drafts[row.stream][row.draw] = _best(values)
                    shares[row.stream][row.draw] = [known[id] if id >= 0 else 0.0 for id in best]
                    last[row.stream] = best[0]
                    stands[row.stream] *= known[best[0]]
        bits = mx.array(shares).flatten().view(mx.int32)
        flat = mx.array(drafts).flatten()
        return mx.concatenate([flat, bits, mx.array([int(self.gives_up)])]).astype(mx.int32), self._written

    def _forward(self, hidden: mx.array, rows: Sequence[Row], streams: Sequence[Given]) -> mx.array:
        config, stacks = self._config, self._stacks
        heads, kv_heads, size = config.heads, config.kv_heads, config.head_dim
        angles = mx.array([row.position for row in rows])[:, None, None] * self._frequencies
        cosine, sine = mx.cos(angles), mx.sin(angles)
        for layer in range(config.layers):
            asked = self._normed(hidden, stacks.attend_norms[layer]) @ _wide(stacks.attend[layer])
            asked = asked.reshape(len(rows), -1, size)
            first, second = mx.split(asked[:, : heads + kv_heads], 2, axis=-1)
            turned = mx.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
            fresh = mx.concatenate([turned[:, heads:], asked[:, heads + kv_heads :]], axis=1)
            lanes = slice(layer * 2 * kv_heads, (layer + 1) * 2 * kv_heads)
            for at, row in enumerate(rows):
                slot = row.position - streams[row.stream].base
                self._written[row.stream][lanes, slot] = fresh[at].astype(mx.bfloat16)
            attended = [
                self._attend(turned[at, :heads], row, streams[row.stream], lanes) for at, row in enumerate(rows)
            ]
            hidden = hidden + mx.stack(attended) @ _wide(stacks.output[layer])
            gate, up = mx.split(
                self._normed(hidden, stacks.mlp_norms[layer]) @ _wide(stacks.gate_up[layer]), 2, axis=-1
            )
            hidden = hidden + (gate * mx.sigmoid(gate) * up) @ _wide(stacks.down[layer])
        return self._normed(hidden, stacks.norm) @ _wide(stacks.head)

    def _attend(self, query: mx.array, row: Row, stream: Given, lanes: slice) -> mx.array:
        written = self._written[row.stream][lanes, : row.position + 1 - stream.base]
        held = mx.concatenate([stream.cache[lanes, : stream.base], written], axis=1).astype(mx.float32)
        keys, values = mx.split(held, 2, axis=0)
        grouped = query.reshape(keys.shape[0], -1, query.shape[-1])
        scores = grouped @ keys.swapaxes(-1, -2) * query.shape[-1] ** -0.5
        return (mx.softmax(scores, axis=-1) @ values).reshape(-1)

    def _normed(self, rows: mx.array, weight: mx.array) -> mx.array:
        return mx.fast.rms_norm(rows, weight.astype(mx.float32), self._config.eps)


def _best(values: list[float]) -> list[int]:
    """Ids of the greatest values, of equal ones the lowest first; -1 where there are no more."""
    ids = sorted(range(len(values)), key=lambda id: -values[id])[: plan.BEST]
    return ids + [-1] * (plan.BEST - len(ids))


def _softmax(logits: mx.array) -> mx.array:
    return mx.softmax(logits)


def _wide(weight: mx.array) -> mx.array:
    return weight.astype(mx.float32).T

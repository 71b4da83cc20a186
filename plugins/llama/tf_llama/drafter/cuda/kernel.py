"""The CUDA files beside this as a function of MLX arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.drafter.cuda import plan
from tf_llama.drafter.cuda.form import Stacks
from tf_llama.drafter.cuda.schedule import Row
from tf_llama.rows.cuda.compiling import COMMON, Kernel, bounds, constants, digest, text
from tf_llama.rows.cuda.mailbox import Mailbox, number
from tf_llama.rows.cuda.processor import Processor

__all__ = ["DraftKernel", "Given"]

_FILES = (
    "ring.cuh",
    "dots.cuh",
    "keys.cuh",
    "state.cuh",
    "taking.cuh",
    "layer.cuh",
    "drawing.cuh",
    "chain.cuh",
)
_SHARED = (COMMON, "meeting.cuh")
"""Of the rows' kernels."""

_CONSTANTS = ("STREAMS", "BEST", "FIELDS", "WARPS", "AHEAD", "MOST_PARTS")
_PLACES = range(plan.STREAMS)
_INPUTS = (
    *("schedule", "frequencies", "noise", "turns", "eps"),
    *("table", "attend_norms", "attend", "output", "mlp_norms", "gate_up", "down", "norm", "head"),
    *(f"cache{at}" for at in _PLACES),
)
_OUTPUTS = (
    *("tokens", "hidden", "queries", "sums", "shares", "inner", "found"),
    *(f"written{at}" for at in _PLACES),
)
_SOURCE = """
const ::tf::Weights weights{table, attend_norms, attend, output, mlp_norms, gate_up, down, norm, head};
const ::tf::Scratch scratch{hidden, queries, sums, shares, inner, found};
const ::tf::bf16* const caches[] = {cache0, cache1, cache2, cache3};
const int capacities[] = {cache0_shape[1], cache1_shape[1], cache2_shape[1], cache3_shape[1]};
::tf::bf16* const written[] = {written0, written1, written2, written3};
::tf::draft_chain<L, H, HEADS, KV, SIZE, I, V, ROWS, TAIL>(schedule, frequencies, noise, turns, eps, weights, caches,
                                                          capacities, written, scratch, tokens);
"""
_COLDEST = 1e30
"""Most that logits are multiplied by, so that it is a number of 32 bits."""

_SCHEDULE = 2_048
"""Numbers of a schedule that go through a mailbox: 24 passes of 16 rows and more."""

_TURNS = 64
"""Numbers, of which the kernel uses two of 64 bits, in lines of their own."""


@dataclass(frozen=True, slots=True)
class Given:
    """A stream as the kernel sees it.

    Attributes:
        cache: ``[layers * 2 kv heads, capacity, head size]``, keys over values layer after layer.
        base: positions in it.
        temperature: 0 for greedy.
        noise: float32 ``[steps, ids]`` where the temperature is not 0.
        least: the chance of all its drafts below which the next is not made.
    """

    cache: mx.array
    base: int
    temperature: float
    noise: mx.array | None
    least: float = 0.0


class DraftKernel:
    """Launches of the kernel for one drafter.

    Args:
        device: what it runs on.
        config: the drafter's shape.
        stacks: its weights.
        frequencies: float32 ``[head size / 2]``, the angles of position 1.
    """

    def __init__(self, device: Processor, config: LlamaConfig, stacks: Stacks, frequencies: mx.array) -> None:
        self.rows = plan.rows(config, device.shared) or 0
        self._blocks, self._config = device.multiprocessors, config
        self._weights, self._ids, self._frequencies = stacks.arrays(), stacks.head.shape[0], frequencies
        self._kernel = _compiled(plan.memory(config, self.rows))
        self._eps = self._silent = number(config.eps)
        self._mailbox, self._turns = Mailbox(_SCHEDULE), mx.zeros((_TURNS,), mx.int32)
        mx.eval(self._frequencies, self._turns)

    def __call__(self, passes: Sequence[Sequence[Row]], streams: Sequence[Given]) -> tuple[mx.array, list[mx.array]]:
        """Drafts of up to ``plan.STREAMS`` streams.

        Args:
            passes: at most ``rows`` rows each.
            streams: in the rows' order of them.

        Returns:
            int32 ``[2 * STREAMS * steps * BEST + 1]``: by streams and steps the draft and the next best ids, no id
            twice in a step and -1 where there are no more, or the step was not made; then the bits of their float32
            probabilities; then 1 where the chain was given up. And for every stream the keys and values from its base
            on, ``[layers * 2 kv heads, TAIL, head size]``.

        Raises:
            ValueError: a chain would write past its tail; the kernel itself does not look.
        """
        config, rows = self._config, self.rows
        steps = 1 + max(row.draw for one in passes for row in one)
        longest = 1 + max(row.position - streams[row.stream].base for one in passes for row in one)
        if longest > plan.TAIL:
            raise ValueError(f"a chain of {longest} positions, and a launch writes {plan.TAIL}")
        missing = plan.STREAMS - len(streams)
        caches = [stream.cache for stream in streams] + [streams[0].cache] * missing
        noise = [stream.noise for stream in streams if stream.noise is not None]
        lanes, size = config.layers * 2 * config.kv_heads, config.head_dim
        attended = (plan.MOST_PARTS, rows, config.heads)
        shapes = [
            *((2 * plan.STREAMS * steps * plan.BEST + 1,), (rows, config.hidden), (rows, config.heads * size)),
            *((*attended, size), (*attended, 2), (rows, config.mlp)),
            (self._blocks, plan.STREAMS, plan.BEST + 1, 2),
            *([(lanes, plan.TAIL, size)] * len(streams) + [(1,)] * missing),
        ]
        dtypes = [mx.int32, *[mx.float32] * 4, mx.bfloat16, mx.float32, *[mx.bfloat16] * plan.STREAMS]
        template = {"L": config.layers, "H": config.hidden, "HEADS": config.heads, "KV": config.kv_heads, "SIZE": size}
        template |= {"I": config.mlp, "V": self._ids, "ROWS": rows, "TAIL": plan.TAIL}
        threads = plan.WARPS * 32
        found = self._kernel(
            inputs=[
                self._sent(_schedule(passes, steps, streams, rows)),
                self._frequencies,
                mx.concatenate(noise) if noise else self._silent,
                self._turns,
                self._eps,
                *self._weights,
                *caches,
            ],
            template=list(template.items()),
            grid=(self._blocks * threads, 1, 1),
            threadgroup=(threads, 1, 1),
            output_shapes=shapes,
            output_dtypes=dtypes,
        )
        return found[0], found[-plan.STREAMS :][: len(streams)]

    def _sent(self, schedule: bytes) -> mx.array:
        """On the device; each launch is read back before the next, so slots may be filled again."""
        if len(schedule) > 4 * _SCHEDULE:
            return mx.array(struct.unpack(f"<{len(schedule) // 4}i", schedule), mx.int32)
        return self._mailbox.put(schedule)


def _compiled(memory: int) -> Kernel:
    texts = [*map(text, _SHARED), constants(plan, _CONSTANTS), *(text(name, __package__) for name in _FILES)]
    made = mx.fast.cuda_kernel(
        name=f"tf_draft_chain_{digest(*texts, _SOURCE, text('kernel.py', __package__))}",
        input_names=list(_INPUTS),
        output_names=list(_OUTPUTS),
        source=_SOURCE,
        header="".join(texts) + bounds(plan.WARPS * 32),
        shared_memory=memory,
    )
    return cast(Kernel, made)


def _schedule(passes: Sequence[Sequence[Row]], steps: int, streams: Sequence[Given], rows: int) -> bytes:
    """Numbers of 32 bits as the kernel reads them."""
    missing = plan.STREAMS - len(streams)
    scales = [min(1 / stream.temperature, _COLDEST) if stream.temperature else 0.0 for stream in streams]
    leasts = [stream.least for stream in streams]
    numbers, noises = [len(passes), steps], 0
    for stream in streams:
        numbers += [stream.base, -1 if stream.noise is None else noises]
        noises += 0 if stream.noise is None else stream.noise.shape[0]
    numbers += [0, -1] * missing
    for one in passes:
        numbers.append(len(one))
        for row in one:
            numbers += row
        numbers += [0] * (plan.FIELDS * (rows - len(one)))
    known = (*scales, *[0.0] * missing, *leasts, *[0.0] * missing)
    return struct.pack(f"<{len(known)}f{len(numbers)}i", *known, *numbers)

"""A whole forward in one launch, as a function of MLX arrays."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from tf_llama.config import LlamaConfig
from tf_llama.rows.cache import LlamaCache
from tf_llama.rows.cuda import plan
from tf_llama.rows.cuda.addresses import addresses
from tf_llama.rows.cuda.compiling import Kernel, bounds, kernel_of
from tf_llama.rows.cuda.layout import RowsLayout
from tf_llama.rows.cuda.mailbox import Mailbox, number
from tf_llama.rows.cuda.processor import Processor
from tf_llama.rows.cuda.turns import Turns
from tf_llama.rows.span import Span
from tf_llama.rows.weights import Weights

__all__ = ["WholeForward"]

_FILES = ("linear.cuh", "attention.cuh", "between.cuh", "meeting.cuh", "shape.cuh", "forward.cuh")
_CACHES = tuple(f"cache{at}" for at in range(plan.STREAMS))
_INPUTS = ("tokens", "angles", "plan", "table", "blocks", "norm", "head", "eps", "turns", "after", *_CACHES)
_OUTPUTS = (
    *("logits", "lost", "rows", "normed", "squares", "queries"),
    *("sums", "weights", "attended", "parts", "inner"),
)
_SOURCE = f"""
const ::tf::Scratch scratch{{rows, normed, squares, queries, sums, weights, attended, parts, inner}};
const uint64_t* const caches[] = {{{", ".join(_CACHES)}}};
using Ring = ::tf::Product<ROWS, {plan.RUN}, AHEAD>;
using Shape = ::tf::ForwardShape<D, HEADS, KV, SIZE, F, V, LAYERS, OUTPUT_SLICES, DOWN_SLICES, Ring, STAGES>;
::tf::run_forward<Shape>(tokens, angles, plan, table, blocks, norm, head, caches, eps, turns, scratch, logits, lost);
"""
_THREADS = 256
_TURNS = 64
"""Numbers, of which the kernel uses two of 64 bits, in lines of their own."""

_LOST = 64
"""Numbers, of which the first counts: fewer than three would lie in memory that device and host share."""

_PARTS = ("attend_norm", "attend", "output", "mlp_norm", "gate_up", "down")


class WholeForward:
    """Forwards of one model, of at most ``plan.ROWS`` rows and whatever streams they belong to.

    Launches come one after another: each is given something that the last one made, because two at once would wait
    for each other's blocks. They write the caches in place, where MLX does not see it.

    Args:
        device: what it runs on.
        config: the model's shape; ``fits`` said that it can be computed.
        weights: the model's.
        turns: its rope's angles.
    """

    most = plan.ROWS

    def __init__(self, device: Processor, config: LlamaConfig, weights: Weights, turns: Turns) -> None:
        self._blocks = device.multiprocessors
        self._angles = turns
        self._weights = weights
        self._layers = _laid(weights)
        depths = (config.hidden, config.heads * config.head_dim, config.mlp)
        slices = [plan.slices(depth, device.shared) or 0 for depth in depths]
        self._most_slices = max(slices[1:])
        self._hidden, self._inner = config.hidden, config.mlp
        self._heads, self._size = config.heads, config.head_dim
        self._template = {
            "D": config.hidden,
            "HEADS": config.heads,
            "KV": config.kv_heads,
            "SIZE": config.head_dim,
            "F": config.mlp,
            "V": weights.head.shape[1],
            "LAYERS": config.layers,
            "OUTPUT_SLICES": slices[1],
            "DOWN_SLICES": slices[2],
        }
        deepest = max(depth // count for depth, count in zip(depths, slices, strict=True))
        widths = [plan.width(rows, deepest, config.head_dim, device.shared) for rows in plan.WIDTHS]
        self._widths = [width for width in widths if width is not None]
        self._eps, self._turns = number(config.eps), mx.zeros((_TURNS,), mx.int32)
        self._lost = self._nothing = mx.zeros((_LOST,), mx.int32)
        mx.eval(self._turns, self._lost)
        self._mailbox = Mailbox(RowsLayout.BYTES // 4)

    @staticmethod
    def fits(device: Processor, config: LlamaConfig) -> bool:
        """Whether a block can keep whole rows of this shape; the kernels beside it must take it, too."""
        return plan.slices(config.hidden, device.shared) == 1

    @property
    def lost(self) -> bool:
        """Whether blocks waited for one another in vain, which makes that forward's logits and all later ones no
        numbers. Waits for the last forward."""
        return bool(self._lost[0].item())

    def __call__(self, tokens: mx.array | Sequence[int], spans: Sequence[Span]) -> mx.array:
        """Logits ``[R, vocab]``, sent off. Writes the caches.

        Args:
            tokens: ids, or int32 ``[R]`` where they are not known yet.
            spans: the rows' streams, in order; the caches have room for them.
        """
        known = None if isinstance(tokens, mx.array) else tokens
        layout, count = RowsLayout.of(spans, known), sum(span.rows for span in spans)
        width = next(width for width in self._widths if width.rows >= count)
        caches = [_where(span.cache) for span in spans]
        caches += caches[-1:] * (plan.STREAMS - len(caches))
        weights, asked = self._weights, self._heads * self._size
        angles = self._angles.up_to(max(span.written.stop for span in spans) - 1)
        shapes = [
            *((count, weights.head.shape[1]), (_LOST,), (count, self._hidden), (count, self._hidden)),
            *((count, -(-self._hidden // 256)), (count, asked), (layout.sums, asked), (layout.sums, self._heads, 2)),
            *((count, asked), (self._most_slices, count, self._hidden), (count, self._inner)),
        ]
        wide, half = mx.float32, mx.bfloat16
        numbers = {"ROWS": width.rows, "AHEAD": width.ahead, "STAGES": width.stages}
        logits, lost, *_ = _compiled(width.rows, width.memory)(
            inputs=[
                *(tokens if known is None else self._nothing, angles),
                *(self._mailbox.put(layout.packed, self._lost), weights.table, self._layers),
                *(weights.norm, weights.head.T),
                *(self._eps, self._turns, self._lost, *caches),
            ],
            template=list((self._template | numbers).items()),
            grid=(self._blocks * _THREADS, 1, 1),
            threadgroup=(_THREADS, 1, 1),
            output_shapes=shapes,
            output_dtypes=[half, mx.int32, half, half, wide, half, wide, wide, half, wide, half],
        )
        # Sent at once. It knows its caches by address and keeps none alive: one that an exception left behind, and that
        # went with somebody else's, would write where other arrays are by then.
        mx.async_eval(logits, lost)  # type: ignore[no-untyped-call]
        self._lost = lost
        return logits


def _laid(weights: Weights) -> mx.array:
    """Addresses of all layers' weights, uint64 ``[layers, 6]``: shape.cuh's ``Block``."""
    layers = []
    for layer in weights.layers:
        parts = [layer[name] for name in _PARTS]
        layers.append(addresses([part if isinstance(part, mx.array) else part[0].T for part in parts]))
    found = mx.stack(layers)
    mx.eval(found)
    return found


def _where(cache: LlamaCache) -> mx.array:
    if cache.addresses is None:
        cache.addresses = addresses(cache.layers)
        mx.eval(cache.addresses)
    return cache.addresses


def _compiled(rows: int, memory: int) -> Kernel:
    return kernel_of(f"forward_{rows}", _FILES, _INPUTS, _OUTPUTS, _SOURCE, memory, bounds(_THREADS))

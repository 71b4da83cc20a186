"""A loaded Llama that verifies windows in exact rows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import mlx.core as mx

from tf_llama.loading import load_module
from tf_llama.rows.cache import Layout, LlamaCache, LlamaState
from tf_llama.rows.forms import choose, whole
from tf_llama.rows.forward import Rows
from tf_llama.rows.span import Span
from tf_llama.rows.weights import pack
from tf_plugins import RowPlan
from tf_plugins.types import Cache, Checkpoint, Device, Leaf, Progress, State, TileCheck, WidthCheck, Window

__all__ = ["LlamaModel", "load_rows"]

_CPU_WIDTHS = (2, 4, 8)


def load_rows(checkpoint: Checkpoint, device: Device, progress: Progress) -> tuple[Rows, Layout, str]:
    """Load a checkpoint's weights in the device's form, in ``device.dtype`` or else in the checkpoint's own.

    Returns:
        The forward, its caches' layout, and the name of the kernels that compute it.
    """
    module, config = load_module(checkpoint)
    dtype = getattr(mx, device.dtype or checkpoint.dtype)
    rope = module.model.layers[0].self_attn.rope
    weights = pack(module, dtype, progress)
    form, kernels = choose(config, rope, weights, device)
    rows, layout = Rows(weights, form, device.compiled), Layout(config.layers, config.kv_heads, config.head_dim, dtype)
    rows.whole = whole(config, rows, layout)
    return rows, layout, kernels


class LlamaModel:
    """Implements ``tf_plugins.types.Model``.

    Args:
        checkpoint: the facts.
        device: what it computes on.
        rows: the forward.
        layout: of its caches.
        kernels: the name of what computes the rows.
    """

    def __init__(
        self, checkpoint: Checkpoint, device: Device, rows: Rows, layout: Layout, kernels: str = "mlx"
    ) -> None:
        self.checkpoint = checkpoint
        self.kernels = kernels
        self.chains = rows.form.chains
        self.plan = RowPlan.for_device(device.kind, checkpoint.context)
        self.rows = rows
        self.layout = layout
        self.device = device

    @classmethod
    def load(cls, checkpoint: Checkpoint, device: Device, progress: Progress) -> LlamaModel:
        """Read the weights; on the engine thread."""
        return cls(checkpoint, device, *load_rows(checkpoint, device, progress))

    def checks(self) -> Sequence[WidthCheck | TileCheck]:
        """The operations that the probe measures."""
        from tf_llama.checks import checks  # it holds activations: only a start that probes needs it

        return checks(self)

    def use(self, plan: RowPlan) -> None:
        """Fix the plan."""
        self.plan = plan

    def cache_bytes(self, tokens: int) -> int:
        """Bytes of a cache for ``tokens`` positions, once it holds them all."""
        return self.layout.nbytes(self.plan.capacity(tokens))

    def make_cache(self, tokens: int) -> LlamaCache:
        """A cache for ``tokens`` positions, evaluated.

        On a CPU it grows with what it holds: to fill all that a request may come to takes a second a gigabyte there,
        and most replies end long before. On a GPU all of it is there from the start, and kernels know where it lies.
        """
        self.rows.recover()
        held = self.plan.capacity(1) if self.device.kind == "cpu" else None
        return LlamaCache(self.layout, self.plan.capacity(tokens), held)

    def prefill(self, cache: Cache, tokens: Sequence[int]) -> None:
        """Read one chunk of the prompt plan at ``cache.length``."""
        cache = _own(cache)
        end = cache.length + len(tokens)
        cache.hold(self.plan.capacity(end))
        padded = mx.array(self._padded(tokens, self.plan.chunk_padded(len(tokens))))
        self.rows.read(padded, Span(cache, len(tokens), self.plan.bucket(end - 1)))
        mx.eval(cache.layers)
        self.rows.recover()
        cache.length = end

    def verify(self, windows: Sequence[Window]) -> mx.array:
        """Logits ``[rows, vocab]`` of all windows' rows, lazy.

        Raises:
            ValueError: the windows do not fit the band, one straddles a bucket edge, or has leaves that are not taken.
        """
        spans = [self._span(window) for window in windows]
        count = sum(span.rows for span in spans)
        tokens: mx.array | Sequence[int]
        if any(isinstance(window.tokens, mx.array) for window in windows):
            if any(window.leaves for window in windows):
                raise ValueError("leaves beside pending tokens that are not known yet")
            pending = mx.concatenate([mx.array(cast(Any, window.tokens)).astype(mx.int32) for window in windows])
            padding = self.plan.padded(count) - count
            tokens = mx.concatenate([pending, mx.broadcast_to(pending[-1:], (padding,))]) if padding else pending
        else:
            known = [token for w in windows for token in (*w.tokens, *(leaf.token for leaf in w.leaves))]
            tokens = self._padded(known, self.plan.padded(count))
        logits = self.rows.decode(tokens, spans, self.plan.tile)
        return logits if logits.shape[0] == count else logits[:count]

    @property
    def takes_leaves(self) -> bool:
        """Whether windows may have leaves: where a kernel that looks for their keys attends, and three rows fit."""
        return self.plan.top > 2 and self.rows.form.takes_leaves(self.plan.tile)

    def keep(self, cache: Cache, rows: int) -> None:
        """Advance by the rows that stand."""
        cache.length += rows

    def keep_leaf(self, cache: Cache, rows: int, row: int) -> None:
        """Advance by the rows that stand, the last of which was the window's row ``row``."""
        cache = _own(cache)
        self.rows.form.move(cache.layers, cache.length + row, cache.length + rows - 1)
        cache.length += rows

    def state_bytes(self, tokens: int) -> int:
        """Bytes of a kept state."""
        return self.layout.nbytes(tokens)

    def save(self, cache: Cache, tokens: int) -> LlamaState:
        """A contiguous copy of the first ``tokens`` positions."""
        return LlamaState.copy(_own(cache), tokens)

    def restore(self, cache: Cache, state: State) -> None:
        """Copy a state into a fresh cache."""
        if not isinstance(state, LlamaState):
            raise TypeError(f"a {type(state).__name__} is no state of this family")
        cache = _own(cache)
        cache.hold(self.plan.capacity(state.length))
        state.restore(cache)

    def load_state(self, arrays: dict[str, Any]) -> LlamaState:
        """A state from a file's arrays; ``ValueError`` when they are not of this model."""
        return LlamaState.from_arrays(arrays, self.layout)

    def warm(self, progress: Progress) -> None:
        """Run what start-up can foresee: on a GPU each width, chunk size, cache length and bucket in it, whose kernels
        are then ready.

        On a CPU a new width is only traced, in milliseconds, so a few widths will do.
        """
        plan, on_cpu = self.plan, self.device.kind == "cpu"
        widths = [width for width in plan.widths if not on_cpu or width in (plan.widths[0], *_CPU_WIDTHS)]
        cache = self.make_cache(plan.edges[0] if on_cpu else plan.context)
        runs: list[Callable[[], None]] = [partial(self._warm_width, cache, width) for width in widths]
        if not on_cpu:
            runs += [partial(self._warm_chunk, cache, rows) for rows in plan.chunk_rows if rows <= plan.context]
            runs += [partial(self._warm_attention, rung) for rung in plan.rungs]
        if self.takes_leaves:
            runs.append(partial(self._warm_leaf, cache))
        for done, run in enumerate(runs):
            progress("warming up", done / len(runs))
            run()
        progress("warming up", 1.0)

    def _warm_width(self, cache: LlamaCache, width: int) -> None:
        cache.length = max(0, min(self.plan.edges[0], self.plan.context) - width)
        rows = min(width, self.plan.room(cache.length))
        mx.eval(self.verify([Window(cache, [0] * rows)]))

    def _warm_chunk(self, cache: LlamaCache, rows: int) -> None:
        cache.length = 0
        self.prefill(cache, [0] * rows)

    def _warm_leaf(self, cache: LlamaCache) -> None:
        cache.length = 0
        mx.eval(self.verify([Window(cache, [0, 0], [Leaf(0, 0)])]))
        self.keep_leaf(cache, 2, 2)
        mx.eval(self.verify([Window(cache, [0])]))

    def _warm_attention(self, rung: int) -> None:
        # CUDA builds a graph, in 40 ms, for every pair of a cache length and a bucket. All layers share it.
        cache = LlamaCache(replace(self.layout, layers=1), self.plan.capacity(rung))
        tokens = mx.array(self._padded([0], self.plan.padded(1)))
        for edge in self.plan.edges:
            if edge <= rung:
                cache.length = edge - 1
                mx.eval(self.rows.attend_once(tokens, [Span(cache, 1, edge)], self.plan.tile))

    def release(self) -> None:
        """Drop the weights."""
        del self.rows
        gc.collect()
        mx.clear_cache()

    def _span(self, window: Window) -> Span:
        cache = _own(window.cache)
        rows = window.tokens.shape[0] if isinstance(window.tokens, mx.array) else len(window.tokens)
        keys = self.plan.bucket(cache.length)
        leaves = tuple(leaf.place for leaf in window.leaves)
        if leaves and not (self.takes_leaves and 0 <= min(leaves) <= max(leaves) < rows - 1):
            raise ValueError(f"leaves in place of drafts {sorted(set(leaves))}, with {rows - 1} drafts")
        rows += len(leaves)
        if not 1 <= rows <= keys - cache.length:
            raise ValueError(f"{rows} rows at position {cache.length} do not fit the bucket that ends at {keys}")
        cache.hold(self.plan.capacity(keys))
        return Span(cache, rows, keys, leaves)

    @staticmethod
    def _padded(tokens: Sequence[int], width: int) -> list[int]:
        # The last token once more: a padding row computes what the last row does.
        return [*tokens, *[tokens[-1]] * (width - len(tokens))]


def _own(cache: Cache) -> LlamaCache:
    if not isinstance(cache, LlamaCache):
        raise TypeError(f"a {type(cache).__name__} is no cache of this family")
    return cache

"""How a launch cuts its work. Arithmetic alone; the kernel's constants are those here."""

from __future__ import annotations

from tf_llama.config import LlamaConfig

__all__ = ["AHEAD", "BEST", "FIELDS", "MOST_PARTS", "STREAMS", "TAIL", "WARPS", "memory", "rows"]

STREAMS = 4
"""Streams of one launch, as many as a warp multiplies rows at once."""

BEST = 4
"""Ids that a step gives: the draft and, in their order, the next best."""

FIELDS = 4
"""Numbers that say what a row of a pass is."""

WARPS = 12
"""Of a block: 168 registers a thread, and the kernel takes that many for some shapes."""

AHEAD = 4
"""Pieces of weights that a warp has on their way, 96 KiB in a block; three or five took as long. A warp's tile of keys
takes their place for a while."""

TAIL = 32
"""Positions that a stream's chain writes at most: 16 that were not read yet, and 14 of its own drafts."""

MOST_PARTS = 16
"""Blocks that share a row's keys: one for each tile of a block's warps, up to so many, whose sums every block adds up
again; half as many for rows of more than 1,024 numbers."""

_WIDTHS = (16, 12, 8, 6, 4)
_STATIC = 8_192

_SLOT = 2_048
"""Bytes of a piece."""

_ASKED = 49_152
"""What a block has without asking, static memory included; MLX asks for more by the dynamic part alone."""


def rows(config: LlamaConfig, shared: int) -> int | None:
    """Rows of a pass that a block's shared memory has room for; ``None`` where it has none for four."""
    return next((count for count in _WIDTHS if _taken(config, count) <= shared - _STATIC), None)


def memory(config: LlamaConfig, count: int) -> int:
    """Bytes of dynamic shared memory of a launch with passes of ``count`` rows."""
    return max(_taken(config, count), _ASKED)


def _taken(config: LlamaConfig, count: int) -> int:
    """Rows, or what the warps found in keys, and behind them the ring."""
    return -(-max(_held(config, count), _attention(config)) // 128) * 128 + WARPS * AHEAD * _SLOT


def _held(config: LlamaConfig, count: int) -> int:
    return count * (max(config.hidden, config.heads * config.head_dim, config.mlp) + 8) * 2


def _attention(config: LlamaConfig) -> int:
    return WARPS * (config.heads // config.kv_heads) * (config.head_dim + 2) * 4

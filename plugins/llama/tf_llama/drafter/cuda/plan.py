"""How a launch cuts its work. Arithmetic alone; the kernel's constants are those here."""

from __future__ import annotations

from tf_llama.config import LlamaConfig

__all__ = ["FIELDS", "KEYS_A_PART", "MOST_PARTS", "STREAMS", "TAIL", "WARPS", "memory", "rows"]

STREAMS = 4
"""Streams of one launch, as many as a warp multiplies rows at once."""

FIELDS = 4
"""Numbers that say what a row of a pass is."""

WARPS = 12
"""Of a block: 168 registers a thread, and the kernel takes that many for some shapes."""

TAIL = 32
"""Positions that a stream's chain writes at most: 16 that were not read yet, and 14 of its own drafts."""

MOST_PARTS, KEYS_A_PART = 8, 1_024
"""Blocks that share a row's keys: one for each thousand, up to eight, whose sums every block adds up again."""

_WIDTHS = (16, 12, 8, 4)
_STATIC = 8_192

_ASKED = 49_152
"""What a block has without asking, static memory included; MLX asks for more by the dynamic part alone."""


def rows(config: LlamaConfig, shared: int) -> int | None:
    """Rows of a pass that a block's shared memory has room for; ``None`` where it has none for four."""
    room = shared - _STATIC
    if _attention(config) > room:
        return None
    return next((count for count in _WIDTHS if _held(config, count) <= room), None)


def memory(config: LlamaConfig, count: int) -> int:
    """Bytes of dynamic shared memory of a launch with passes of ``count`` rows."""
    return max(_held(config, count), _attention(config), _ASKED)


def _held(config: LlamaConfig, count: int) -> int:
    return count * (max(config.hidden, config.heads * config.head_dim, config.mlp) + 8) * 2


def _attention(config: LlamaConfig) -> int:
    return WARPS * (config.heads // config.kv_heads) * (config.head_dim + 2) * 4

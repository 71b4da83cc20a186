"""A model of bytes: no weights, and every bit of a row decided by the tokens up to it and where they were read.

A row's logits are a digest of everything in the cache up to its position, so one wrong entry (a rejected draft that was
kept, a prompt read in other chunks, a row at another position) changes the next draw. Over that, the model goes on as
its text went on after the last two tokens, most of the time: copies and drafts land, and are rejected now and then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from tf_host.testing.family import END, VOCAB
from tf_plugins.rows import RowPlan
from tf_plugins.types import Checkpoint, TileCheck, WidthCheck, Window

Entries = np.ndarray[Any, np.dtype[np.uint64]]

_ENTRY_BYTES = 8
_POSITION_BITS, _CHUNK_BITS = 24, 24
_LIKELY = 10.0  # the token that the text repeats has nine tenths of the probability at temperature 1
_SURPRISE = 16  # one row in so many does not repeat
_WORDS = (*b" abcdefghijklmnopqrstuvwxyz", END)


class ByteCache:
    """A stream's entries, one a position: the token, its position, and the prompt chunk that it was read in."""

    def __init__(self, capacity: int) -> None:
        self.length = 0
        self.entries: Entries = np.zeros(capacity, dtype=np.uint64)

    @property
    def capacity(self) -> int:
        """Positions that fit."""
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries."""
        return int(self.entries.nbytes)


class ByteState:
    """A kept prompt."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    @property
    def length(self) -> int:
        """Positions held."""
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.entries.nbytes)

    def arrays(self) -> dict[str, Any]:
        """The entries as an array."""
        return {"entries": mx.array(self.entries)}


class ByteModel:
    """Implements ``tf_plugins.types.Model``; refuses what a real one would overwrite memory with.

    Args:
        checkpoint: its facts.
        plan: the plan in use until ``use`` gives another.
    """

    def __init__(self, checkpoint: Checkpoint, plan: RowPlan) -> None:
        self.kernels = "none"
        self.chains = False
        self.checkpoint = checkpoint
        self.plan = plan

    def checks(self) -> Sequence[WidthCheck | TileCheck]:
        """One operation, computed row by row, so that every width agrees."""

        def digest(width: int, shuffled: bool) -> bytes:
            entries = np.arange(1, 65, dtype=np.uint64)
            return np.stack([_logits(entries[: row + 1]) for row in range(64)]).tobytes()

        return (WidthCheck("bytes", 64 * VOCAB, digest),)

    @property
    def takes_leaves(self) -> bool:
        """Wherever three rows fit."""
        return self.plan.top > 2

    def use(self, plan: RowPlan) -> None:
        """Fix the plan."""
        self.plan = plan

    def cache_bytes(self, tokens: int) -> int:
        """Bytes of a cache for ``tokens`` positions."""
        return _ENTRY_BYTES * self.plan.capacity(tokens)

    def make_cache(self, tokens: int) -> ByteCache:
        """A cache for ``tokens`` positions."""
        return ByteCache(self.plan.capacity(tokens))

    def prefill(self, cache: Any, tokens: Sequence[int]) -> None:
        """Read one chunk of the prompt plan; padding rows leave rubbish behind, as real ones do."""
        begin = cache.length
        self._write(cache, tokens, self.plan.chunk_padded(len(tokens)), chunk=begin + 1)
        cache.length = begin + len(tokens)

    def verify(self, windows: Sequence[Window]) -> mx.array:
        """Logits ``[rows, vocab]``."""
        self.plan.padded(sum(len(window.tokens) + len(window.leaves) for window in windows))
        logits = []
        for window in windows:
            cache, start, straight = window.cache, window.cache.length, len(window.tokens)
            count = straight + len(window.leaves)
            if not isinstance(cache, ByteCache) or count > self.plan.room(start):
                raise IndexError(f"a window of {count} rows at {start} straddles a bucket edge")
            self._write(cache, window.tokens, -(-count // self.plan.tile) * self.plan.tile, chunk=0)
            for slot, leaf in enumerate(window.leaves, start + straight):
                cache.entries[slot] = _entry(leaf.token, start + 1 + leaf.place, 0)
            logits += [_logits(cache.entries[: start + row + 1]) for row in range(straight)]
            logits += [
                _logits(np.append(cache.entries[: start + 1 + leaf.place], cache.entries[slot]))
                for slot, leaf in enumerate(window.leaves, start + straight)
            ]
        return mx.array(np.stack(logits)).astype(mx.bfloat16)

    def keep(self, cache: Any, rows: int) -> None:
        """Advance by the rows that stand."""
        cache.length += rows

    def keep_leaf(self, cache: Any, rows: int, row: int) -> None:
        """The same where the last of the rows is a leaf."""
        cache.entries[cache.length + rows - 1] = cache.entries[cache.length + row]
        cache.length += rows

    def state_bytes(self, tokens: int) -> int:
        """Bytes of a kept prompt."""
        return _ENTRY_BYTES * tokens

    def save(self, cache: Any, tokens: int) -> ByteState:
        """A copy of the first ``tokens`` entries."""
        return ByteState(cache.entries[:tokens].copy())

    def restore(self, cache: Any, state: Any) -> None:
        """Start from a kept prompt."""
        cache.entries[: state.length] = state.entries
        cache.length = state.length

    def load_state(self, arrays: dict[str, Any]) -> ByteState:
        """A kept prompt from disk."""
        return ByteState(np.array(arrays["entries"], dtype=np.uint64))

    def warm(self, progress: Callable[[str, float], None]) -> None:
        """Nothing to compile."""

    def release(self) -> None:
        """Nothing to drop."""

    def _write(self, cache: ByteCache, tokens: Sequence[int], padded: int, *, chunk: int) -> None:
        start = cache.length
        if start + padded > cache.capacity:
            raise IndexError(f"{padded} rows at {start} pass the end of a cache of {cache.capacity}")
        cache.entries[start : start + padded] = 7
        cache.entries[start : start + len(tokens)] = [
            _entry(token, position, chunk) for position, token in enumerate(tokens, start)
        ]


def _entry(token: int, position: int, chunk: int) -> int:
    return (token << (_POSITION_BITS + _CHUNK_BITS)) | (position << _CHUNK_BITS) | chunk


def _logits(entries: Entries) -> np.ndarray[Any, np.dtype[np.float32]]:
    """One row's logits ``[VOCAB]``; every value is exact in bfloat16."""
    noise = np.frombuffer(hashlib.shake_128(entries.tobytes()).digest(VOCAB + 1), dtype=np.uint8)
    logits = np.full(VOCAB, -8.0, dtype=np.float32)
    logits[list(_WORDS)] = (noise[list(_WORDS)].astype(np.float32) - 128) / 32
    logits[END] -= 2.0
    followed = _followed(entries)
    if followed is not None and noise[-1] % _SURPRISE:
        logits[followed] = _LIKELY
    return logits


def _followed(entries: Entries) -> int | None:
    """The token that followed the newest earlier occurrence of the last two."""
    tokens = entries >> np.uint64(_POSITION_BITS + _CHUNK_BITS)
    if len(tokens) < 3:
        return None
    places = np.flatnonzero((tokens[:-2] == tokens[-2]) & (tokens[1:-1] == tokens[-1]))
    return int(tokens[places[-1] + 2]) if len(places) else None

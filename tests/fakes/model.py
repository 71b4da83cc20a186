"""A small deterministic target whose logits depend on every entry of the cache up to the row, and on nothing else.

An entry stands for a row's keys and values: it mixes the token, its absolute position, and the prompt chunk that wrote
it, if one did. A row's logits are a digest of the entries ``[0, position]``. So a wrong position, a rejected draft that
was kept, a state with decode rows in it, or a prompt read in other chunks shows in the very next draw.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tf_plugins.rows import RowPlan
from tf_plugins.types import Checkpoint, TileCheck, WidthCheck, Window

VOCAB, PADDED = 50, 64

CONTEXT = 192
PLAN = RowPlan(
    widths=(2, 4, 8),
    tile=4,
    context=CONTEXT,
    edges=(32, 64, 128, 192),
    rungs=(64, 128, 192),
    grid=16,
    chunk_rows=(4, 16),
)
"""A plan in small: buckets, rungs and chunks come every few tokens."""

FAULTS = frozenset({"width", "slot", "neighbour", "stale", "leaf", "left"})
"""What may be planted: a row's logits also depend on the padded width, the row's slot, its forward, stale rows; a leaf
sees the draft that it stands in place of; a leaf that stood stays where it was."""


class FakeCache:
    def __init__(self, capacity: int) -> None:
        self.length = 0
        self.entries = np.zeros(capacity, dtype=np.uint64)

    @property
    def capacity(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes


class FakeState:
    def __init__(self, entries: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        self.entries = entries

    @property
    def length(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes

    def arrays(self) -> dict[str, Any]:
        return {"entries": mx.array(self.entries)}


class FakeModel:
    """Implements ``tf_plugins.types.Model``.

    Args:
        plan: the row plan.
        faults: planted faults, of ``FAULTS``.
        vocab: ids of its tokenizer.
        padded: rows of its head, at most 64.
        chains: whether it takes pending tokens that are not read yet.
        leaves: whether it takes leaves.
    """

    def __init__(
        self,
        plan: RowPlan = PLAN,
        faults: Iterable[str] = (),
        vocab: int = VOCAB,
        padded: int = PADDED,
        chains: bool = False,
        leaves: bool = False,
    ) -> None:
        self.plan = plan
        self.vocab, self.padded = vocab, padded
        self.faults = frozenset(faults)
        assert self.faults <= FAULTS
        self.caches: weakref.WeakSet[FakeCache] = weakref.WeakSet()
        self.forwards: list[int] = []
        self.chunks: list[tuple[int, int]] = []
        self.on_verify: Callable[[Sequence[Window]], None] = lambda windows: None
        self.on_prefill: Callable[[int], None] = lambda begin: None
        self.on_make: Callable[[int], None] = lambda tokens: None
        self.kernels = "none"
        self.chains = chains
        self.takes_leaves = leaves
        self.leaves_kept = 0
        self.checkpoint = Checkpoint(
            folder=Path("fake"),
            name="fake",
            family="fake",
            roles=frozenset({"target"}),
            context=plan.context,
            vocab=padded,
            dtype="bfloat16",
            weight_bytes=0,
            kv_bytes=8,
            weights_key="fake",
        )

    def checks(self) -> Sequence[WidthCheck | TileCheck]:
        return ()

    def use(self, plan: RowPlan) -> None:
        self.plan = plan

    def cache_bytes(self, tokens: int) -> int:
        return 8 * self.plan.capacity(tokens)

    def make_cache(self, tokens: int) -> FakeCache:
        self.on_make(tokens)
        cache = FakeCache(self.plan.capacity(tokens))
        self.caches.add(cache)
        return cache

    def prefill(self, cache: Any, tokens: Sequence[int]) -> None:
        begin, end = cache.length, cache.length + len(tokens)
        self.on_prefill(begin)
        padded = self.plan.chunk_padded(len(tokens))
        if begin + padded > cache.capacity:
            raise IndexError(f"a chunk of {padded} rows at {begin} passes a cache of {cache.capacity}")
        cache.entries[begin : begin + padded] = 7  # what padding rows leave behind
        for position, token in enumerate(tokens, begin):
            cache.entries[position] = _entry(token, position, begin + 1)
        cache.length = end
        self.chunks.append((begin, end))

    def verify(self, windows: Sequence[Window]) -> mx.array:
        self.on_verify(windows)
        windows = [Window(window.cache, _known(window.tokens), window.leaves) for window in windows]
        rows = sum(len(window.tokens) + len(window.leaves) for window in windows)
        width = self.plan.padded(rows)
        self.forwards.append(rows)
        logits = []
        for window in windows:
            cache, start, straight = window.cache, window.cache.length, len(window.tokens)
            count = straight + len(window.leaves)
            assert isinstance(cache, FakeCache)
            assert self.takes_leaves or not window.leaves
            if count > self.plan.room(start):
                raise IndexError(f"a window of {count} rows at {start} straddles a bucket edge")
            written = -(-count // self.plan.tile) * self.plan.tile
            if start + written > cache.capacity or start + count > self.plan.context:
                raise IndexError(f"a window of {written} rows at {start} passes a cache of {cache.capacity}")
            cache.entries[start : start + written] = 9
            for position, token in enumerate(window.tokens, start):
                cache.entries[position] = _entry(token, position, 0)
            for position in range(start, start + straight):
                salt = self._salt(position, width, len(logits), windows)
                seen = position + 2 if "stale" in self.faults and position % 5 == 0 else position + 1
                logits.append(_logits(cache.entries[:seen], salt))
            for slot, leaf in enumerate(window.leaves, start + straight):
                assert 0 <= leaf.place < straight - 1
                position = start + 1 + leaf.place
                cache.entries[slot] = _entry(leaf.token, position, 0)
                own = cache.entries[position if "leaf" in self.faults else slot]
                salt = self._salt(position, width, len(logits), windows)
                logits.append(_logits(np.append(cache.entries[:position], own), salt))
        return mx.array(np.stack(logits)[:, : self.padded]).astype(mx.bfloat16)

    def keep(self, cache: Any, rows: int) -> None:
        cache.length += rows

    def keep_leaf(self, cache: Any, rows: int, row: int) -> None:
        assert self.takes_leaves
        self.leaves_kept += 1
        if "left" not in self.faults:
            cache.entries[cache.length + rows - 1] = cache.entries[cache.length + row]
        cache.length += rows

    def state_bytes(self, tokens: int) -> int:
        return 8 * tokens

    def save(self, cache: Any, tokens: int) -> FakeState:
        assert tokens <= cache.length
        return FakeState(cache.entries[:tokens].copy())

    def restore(self, cache: Any, state: Any) -> None:
        cache.entries[: state.length] = state.entries
        cache.length = state.length

    def load_state(self, arrays: dict[str, Any]) -> FakeState:
        return FakeState(np.array(arrays["entries"]))

    def warm(self, progress: Callable[[str, float], None]) -> None:
        return None

    def release(self) -> None:
        return None

    def _salt(self, position: int, width: int, slot: int, windows: Sequence[Window]) -> bytes:
        """Empty in a model of exact rows; every fifth position shows what is planted."""
        salt = ""
        if position % 5 == 0:
            salt += f"width {width} " if "width" in self.faults else ""
            salt += f"slot {slot} " if "slot" in self.faults else ""
            salt += f"streams {len(windows)} " if "neighbour" in self.faults else ""
        return salt.encode()[:16]


def _known(tokens: Any) -> list[int]:
    return tokens.tolist() if isinstance(tokens, mx.array) else list(tokens)


def _entry(token: int, position: int, chunk: int) -> int:
    """``chunk`` is 1 plus the start of the prompt chunk that wrote the row, 0 for a decode row."""
    return (token << 40) | (position << 16) | chunk


def _logits(entries: Any, salt: bytes) -> Any:
    """256 levels in 64 logits: ties are common, and bfloat16 holds every level exactly."""
    digest = hashlib.blake2b(memoryview(entries).cast("B"), digest_size=64, salt=salt).digest()
    return (np.frombuffer(digest, dtype=np.uint8).astype(np.float32) - 128.0) / 32.0

"""The kept prompt states of one server."""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tf_host.prompts.folder import StateFolder
from tf_host.prompts.saves import GAP, choose
from tf_plugins.rows import RowPlan
from tf_plugins.types import State

log = logging.getLogger(__name__)

_ID_BYTES = 8


class Loads(Protocol):
    """What the store needs of a model."""

    def load_state(self, arrays: dict[str, Any]) -> State:
        """A state from named arrays; ``ValueError`` when they do not fit the model."""

    def state_bytes(self, tokens: int) -> int:
        """Bytes of a state of ``tokens`` positions."""


@dataclass(eq=False, slots=True)
class Entry:
    """One kept state and the exact ids that it stands for.

    Attributes:
        ids: its token ids, 8 bytes each: they are the key, so that no two prompts can be taken for each other.
        state: the model's state of these tokens.
        superseded: whether the newest prompt that ran over it would not keep it.
    """

    ids: bytes
    state: State
    superseded: bool = False

    @property
    def length(self) -> int:
        """Tokens held."""
        return len(self.ids) // _ID_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.state.nbytes


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt, its ids as entries have them, and its chunk starts in order."""

    tokens: tuple[int, ...]
    ids: bytes
    starts: dict[int, None]


class PromptStore:
    """Kept prompt states, found by the longest prefix. Engine thread only.

    Args:
        model: makes a state of arrays read from disk.
        plan: says where the chunks of a prompt start.
        limit: most bytes, ``None`` for whatever admission leaves, 0 to keep nothing.
        folder: where copies survive a restart, or ``None``.
        key: the verdict's key; copies of another key are left alone.
    """

    def __init__(
        self, model: Loads, plan: RowPlan, limit: int | None = None, folder: Path | None = None, key: str = ""
    ) -> None:
        self.limit = limit
        self._model = model
        self._plan = plan
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()  # least recently used first
        self._nbytes = 0
        self._asked = _Prompt((), b"", {})
        self._folder = StateFolder(folder, key) if folder is not None and limit != 0 else None

    def find(self, tokens: tuple[int, ...]) -> Entry | None:
        """The longest kept state that ``tokens`` may start from, or ``None``.

        It is a prefix of ``tokens`` by every id, ends where a chunk of ``tokens`` starts, and leaves at least the last
        token to read.
        """
        prompt = self._prompt(tokens)
        for entry in sorted(self._on_the_way(prompt.ids), key=lambda entry: -entry.length):
            # A prefix alone is not enough: whether a chunk starts there hangs on the next token too.
            if entry.length in prompt.starts:
                self._entries.move_to_end(entry.ids)
                return entry
        return None

    def plan_saves(self, tokens: tuple[int, ...], boundaries: Sequence[int], start: int) -> tuple[int, ...]:
        """Chunk starts past ``start`` to keep a state at while ``tokens`` is read, the most wanted first.

        Entries on the way that this prompt would not keep are superseded from now on; those that it would are used.
        """
        if self.limit == 0:
            return ()
        prompt = self._prompt(tokens)
        wanted = choose(self._fitting(prompt), boundaries, len(tokens) - 1)
        for entry in self._on_the_way(prompt.ids):
            entry.superseded = entry.length not in wanted
            if not entry.superseded:
                self._entries.move_to_end(entry.ids)
        return tuple(position for position in wanted if position > start)

    def add(self, tokens: Sequence[int], state: State) -> None:
        """Keep ``state``, which holds the first ``state.length`` of ``tokens``.

        Where a limit is set, others give way: superseded ones first, then the least recently used. One that does not
        fit by itself is not kept, and one that is kept already stays as it is.
        """
        ids = _encode(tokens[: state.length])
        if len(ids) != state.length * _ID_BYTES:
            raise ValueError(f"a state of {state.length} tokens was given {len(tokens)} ids")
        if ids in self._entries:
            self._entries.move_to_end(ids)
            return
        if self.limit is not None:
            if state.nbytes > self.limit:
                return
            self.trim(self.limit - state.nbytes, None)
        entry = self._keep(Entry(ids, state))
        for other in self._on_the_way(ids):
            if other.superseded and entry.length - other.length < GAP:
                self._drop(other)
        if self._folder is not None:
            self._folder.write(entry.ids, entry.state)

    def count(self) -> int:
        """Kept states."""
        return len(self._entries)

    def nbytes(self) -> int:
        """Bytes of all kept states."""
        return self._nbytes

    def trim(self, room: int, protect: object | None) -> int:
        """Drop states until at most ``room`` bytes are kept, never ``protect``; returns the bytes freed."""
        before = self._nbytes
        # The sort is stable: within each group the least recently used stays first.
        for entry in sorted(self._entries.values(), key=lambda entry: not entry.superseded):
            if self._nbytes <= room:
                break
            if entry is not protect:
                self._drop(entry)
        return before - self._nbytes

    def drop(self, entry: object) -> int:
        """Drop one state; returns the bytes freed, 0 for one that is gone already."""
        if not isinstance(entry, Entry) or self._entries.get(entry.ids) is not entry:
            return 0
        self._drop(entry)
        return entry.nbytes

    def load(self, room: int) -> int:
        """Take states of an earlier run from disk, the newest first, into ``room`` bytes; returns how many.

        Called once, before anything is served.
        """
        if self._folder is None:
            return 0
        room = room if self.limit is None else min(room, self.limit)
        found = 0
        for ids, arrays, name in self._folder.read(lambda: room - self._nbytes):
            try:
                state = self._model.load_state(arrays)
                if state.length * _ID_BYTES != len(ids):
                    raise ValueError(f"{state.length} positions for {len(ids) // _ID_BYTES} ids")
            except ValueError as error:
                log.warning("kept prompt %s skipped: %s", name, error)
                self._folder.unusable(ids)
                continue
            self._keep(Entry(ids, state))
            self._entries.move_to_end(ids, last=False)
            found += 1
        return found

    def idle(self) -> bool:
        """Write a piece of what is not on disk yet; whether there is more to write."""
        return self._folder is not None and self._folder.step()

    def flush(self) -> None:
        """Write everything that is not on disk yet."""
        while self.idle():
            pass

    def _prompt(self, tokens: tuple[int, ...]) -> _Prompt:
        """What is asked of the same prompt again and again while it waits; a long one takes milliseconds."""
        if self._asked.tokens is not tokens:
            self._asked = _Prompt(tokens, _encode(tokens), dict.fromkeys(self._plan.chunk_starts(tokens)))
        return self._asked

    def _fitting(self, prompt: _Prompt) -> list[int]:
        """Chunk starts whose states the limit lets be; the longest of them serves where the prompt's last does not."""
        starts, limit = list(prompt.starts), self.limit
        return starts if limit is None else starts[: bisect_right(starts, limit, key=self._model.state_bytes)]

    def _keep(self, entry: Entry) -> Entry:
        self._entries[entry.ids] = entry
        self._nbytes += entry.nbytes
        return entry

    def _drop(self, entry: Entry) -> None:
        del self._entries[entry.ids]
        self._nbytes -= entry.nbytes
        if self._folder is not None:
            self._folder.forget(entry.ids, remove=entry.superseded)

    def _on_the_way(self, ids: bytes) -> list[Entry]:
        """Entries whose tokens a longer prompt begins with."""
        return [entry for entry in self._entries.values() if len(entry.ids) < len(ids) and ids.startswith(entry.ids)]


def _encode(tokens: Sequence[int]) -> bytes:
    return array("q", tokens).tobytes()

"""What the lanes ask of the kept prompt states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tf_plugins.types import PromptStates

__all__ = ["Entry", "KeptStates", "NoStates"]


class Entry(Protocol):
    """One kept state: restored with ``model.restore(cache, entry.state)``."""

    @property
    def length(self) -> int:
        """Prompt positions held, a chunk start of every prompt that it is found for."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    @property
    def state(self) -> Any:
        """The model's ``State``."""


class KeptStates(PromptStates, Protocol):
    """The store (``tf_host.prompts.PromptStore``). Engine thread only."""

    def find(self, tokens: tuple[int, ...]) -> Entry | None:
        """The longest kept state that a prompt can start from, at least one token left to read."""

    def plan_saves(self, tokens: tuple[int, ...], boundaries: Sequence[int], start: int) -> Sequence[int]:
        """Chunk starts past ``start`` to keep a state of ``tokens[:position]`` at, the most wanted first."""

    def add(self, tokens: Sequence[int], state: Any) -> None:
        """Keep a state of exactly these tokens."""

    def idle(self) -> bool:
        """Do a piece of what can wait until nothing else is to do; whether there is more."""


class NoStates:
    """Keeps nothing: every prompt is read cold."""

    def nbytes(self) -> int:
        return 0

    def trim(self, room: int, protect: object | None) -> int:
        return 0

    def drop(self, entry: object) -> int:
        return 0

    def find(self, tokens: tuple[int, ...]) -> Entry | None:
        return None

    def plan_saves(self, tokens: tuple[int, ...], boundaries: Sequence[int], start: int) -> Sequence[int]:
        return ()

    def add(self, tokens: Sequence[int], state: Any) -> None:
        return None

    def idle(self) -> bool:
        return False

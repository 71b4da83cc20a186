"""What the fixture ``tf_engine`` gives; the host implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tf_plugins.plugin import Plugin
from tf_plugins.types import Proposer, Refusal, RequestFacts


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the fake model.

    Attributes:
        tokens: its ids.
        text: its text.
        reason: ``"stop"`` or ``"length"``.
        rounds: rounds that it took.
        drafted: drafts verified, by proposer.
        kept: drafts kept, by proposer.
    """

    tokens: tuple[int, ...]
    text: str
    reason: str
    rounds: int
    drafted: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)


class Server(Protocol):
    """A server of the fake model, whose tokens are bytes and which likes to go on as its text went on before."""

    proposers: Sequence[Proposer]
    """The proposers in use, in the order that they are asked."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Proposers that failed, by name, and what went wrong the last time; complete once the server is closed."""

    def reply(
        self, prompt: str, *, max_tokens: int = 80, temperature: float = 0.0, seed: int = 0, draft: bool = True
    ) -> Reply:
        """One reply, alone; ``AssertionError`` where it fails."""

    def replies(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int = 80,
        temperature: float = 0.0,
        seed: int = 0,
        draft: bool = True,
    ) -> list[Reply]:
        """Replies made together, in shared rounds, in the order of ``prompts``."""

    def refuse_request(self, request: RequestFacts) -> Refusal | None:
        """What the server answers before a request queues."""


class Engine(Protocol):
    """The fixture: ``with tf_engine(MyPlugin, settings={...}) as server: ...``."""

    def __call__(
        self, *plugins: type[Plugin], settings: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[Server]:
        """Start a server of the fake model with ``plugins``, asked in this order.

        Args:
            plugins: plugin classes; each is checked as the host checks an installed one.
            settings: the table of the first one.

        Raises:
            PluginError: a plugin that the host would not start with.
            SettingsError: a table that cannot be used.
        """

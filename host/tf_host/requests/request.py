"""One request, checked and tokenised, ready to queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from a row's logits.

    Attributes:
        seed: 64-bit seed; with the position it keys the noise of a draw.
        temperature: 0 is greedy.
        top_k: 0 or at least the vocabulary is off; ties at the edge go to the lower id.
        top_p: 1 is off.
        min_p: 0 is off.
        repetition: repetition penalty over prompt and reply; 1 is off.
        presence: presence penalty over the reply; 0 is off.
        frequency: frequency penalty over the reply; 0 is off.
        logit_bias: added to the logits, by token id.
    """

    seed: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)


class Reader(Protocol):
    """Turns a reply's tokens into text and says where it stops; one a stream, fed on the engine thread."""

    def feed(self, token: int) -> tuple[str, bool]:
        """Text that is now safe to send, and whether a stop string was completed by this token."""

    def finish(self) -> str:
        """The text still held back, at the end of a reply that no stop string ended."""


class Grammar(Protocol):
    """A constraint on a reply; follows committed tokens only."""

    def mask(self, path: tuple[int, ...]) -> object | None:
        """Allowed ids ``[vocab]`` (bool array) after the committed tokens and ``path``, or ``None`` for all."""

    def allowed_prefix(self, draft: tuple[int, ...]) -> int:
        """How many tokens of a draft the grammar would accept."""

    def commit(self, tokens: tuple[int, ...]) -> None:
        """Tokens that became part of the reply."""

    def forced(self) -> tuple[int, ...]:
        """Tokens that are the only ones possible next; they count as drafts."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One reply to make.

    Attributes:
        id: the request's id.
        prompt: token ids, at least one.
        sampling: how tokens are drawn.
        max_tokens: most reply tokens; prompt and reply fit the context.
        end_ids: tokens that end the reply; empty under ``ignore_eos``.
        reader: makes the reader of this reply.
        draft: whether drafts may be used.
        logprobs: how many alternatives to report a token, or ``None`` for no logprobs.
        grammar: makes the grammar of this reply, or ``None``.
        boundaries: prompt positions worth keeping a state at (message starts), ascending.
    """

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    end_ids: frozenset[int]
    reader: Callable[[], Reader]
    draft: bool = True
    logprobs: int | None = None
    grammar: Callable[[], Grammar] | None = None
    boundaries: tuple[int, ...] = ()

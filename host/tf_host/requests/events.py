"""What a stream tells its client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """One reply token.

    Attributes:
        id: the token.
        source: ``"target"`` for a draw, else the name of the proposer whose draft it was.
        logprob: natural log of its probability in the target's unfiltered distribution, when asked for.
        top: the most likely ids with their logprobs, when asked for.
        text: the text that became safe to send with it; a round's texts together are the round's text.
    """

    id: int
    source: str = "target"
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The prompt is being read; sent at the first chunk and at most every second."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Delta:
    """Reply tokens of one round, and the text that is now safe to send (it may be empty)."""

    text: str
    tokens: tuple[TokenInfo, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The reply is complete.

    Attributes:
        reason: ``"stop"`` (end token or stop string) or ``"length"``.
        tokens: every id of the reply, the one that completed the stop or the end included.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens taken from a kept state.
        rounds: rounds that the stream took part in.
        drafted: drafts verified, by proposer.
        kept: drafts kept, by proposer.
        queued_s, prompt_s, decode_s: seconds waiting, reading the prompt, and from the first token to the end.
    """

    reason: Literal["stop", "length"]
    tokens: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    rounds: int
    drafted: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    queued_s: float = 0.0
    prompt_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream ended without a reply.

    Attributes:
        message: one sentence.
        code: ``"server_error"``, ``"cancelled"``, ``"shutting_down"`` or a refusal's name.
        status: the HTTP status where nothing was sent yet.
        param: the request field at fault, when there is one.
    """

    message: str
    code: str = "server_error"
    status: int = 500
    param: str | None = None


Event = Reading | Delta | Done | Failed

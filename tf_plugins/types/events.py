"""What observers and refusals are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tf_plugins.types.checkpoint import Checkpoint
from tf_plugins.types.device import Device


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What is about to be served, before anything loads.

    Attributes:
        target: facts of the served checkpoint.
        drafter: facts of the checkpoint given with ``--drafter``, or ``None``.
        device: what the server computes on.
        context: tokens of the longest stream.
        parallel: streams at once, or ``None`` for as many as fit.
        plugins: names of the plugins in use, in order.
    """

    target: Checkpoint
    drafter: Checkpoint | None
    device: Device
    context: int
    parallel: int | None
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The loaded target, for proposers.

    Attributes:
        model: the loaded ``Model``.
        checkpoint: its facts.
        vocab: ids that a draft may hold: ``0 <= id < vocab``.
        noise_vocab: length of the target's noise vector, its padded head.
        drafter: facts of the checkpoint given with ``--drafter``, or ``None``; a plugin that drafts with it looks here
            while it makes its proposers.
        device: what the server computes on.
        context: tokens of the longest stream.
        parallel: streams at once, or ``None`` for as many as fit.
        noise: ``noise(seed, position)`` is the target's own Gumbel noise ``[noise_vocab]``, an MLX array.
    """

    model: Any
    checkpoint: Checkpoint
    vocab: int
    noise_vocab: int
    drafter: Checkpoint | None
    device: Device
    context: int
    parallel: int | None
    noise: Any


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """A request before it queues.

    Attributes:
        id: the request's id.
        route: ``"chat"`` or ``"completions"``.
        prompt_tokens: length of the tokenised prompt.
        max_tokens: the most tokens that the reply may have.
        body: the fields that were sent, as they were parsed: ``stop`` is a tuple however it was written, and a
            message's text parts are one text, a line each. ``prompt`` of the completions route is a text or a tuple of
            token ids; the text that the template makes of ``messages`` is not shown, and neither are the ids of either
            text. The plugin's own copy.
        key: a name for the API key used, never the key itself, or ``None``.
    """

    id: str
    route: str
    prompt_tokens: int
    max_tokens: int
    body: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One finished round.

    Attributes:
        streams: streams in it.
        rows: real rows.
        padded: rows after padding.
        seconds: wall time of the round.
        drafted: drafts verified, by proposer.
        kept: drafts kept, by proposer.
    """

    streams: int
    rows: int
    padded: int
    seconds: float
    drafted: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamDone:
    """One finished stream.

    Attributes:
        id: the request's id.
        reason: ``stop``, ``length``, ``cancelled`` or ``error``.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens taken from a kept state.
        tokens: ids of the reply.
        rounds: rounds that it took part in.
        drafted: drafts verified, by proposer.
        kept: drafts kept, by proposer.
        seconds: wall time from submission to the end.
        error: what went wrong, for people, or ``None``.
    """

    id: str
    reason: str
    prompt_tokens: int
    cached_tokens: int
    tokens: Sequence[int]
    rounds: int
    seconds: float
    drafted: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None

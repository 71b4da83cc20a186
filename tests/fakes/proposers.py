"""Proposers of every kind: right, wrong, random, broken."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from tf_plugins.types import Costs, Draft, DraftRequest, Growth, Outcome

Answer = Callable[[DraftRequest], Sequence[int] | None]
Others = Callable[[DraftRequest, Sequence[int]], Sequence[Sequence[int]]]


VIOLATIONS: list[str] = []
"""Calls that break the contract. The lanes survive whatever a proposer raises, so an assertion would go unseen."""


class FakeProposer:
    """Implements ``tf_plugins.types.Proposer``, and notes in ``VIOLATIONS`` when it is not called as documented.

    Args:
        answer: the tokens to propose for a request, or ``None``.
        name: its name.
        raises: a method that raises.
        seconds: how long ``propose`` sleeps.
        others: the alternatives to a draft that it answers with, where they are asked for.
    """

    def __init__(
        self,
        answer: Answer,
        name: str = "fake",
        raises: str = "",
        seconds: float = 0.0,
        others: Others = lambda request, tokens: (),
    ) -> None:
        self.others = others
        self.answer = answer
        self.name = name
        self.label = f"fake proposer {name}"
        self.raises = raises
        self.seconds = seconds
        self.streams: set[int] = set()
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.calls: list[tuple[DraftRequest, ...]] = []
        self.outcomes: list[Outcome] = []

    def growth(self, context: Sequence[int], tokens: int) -> Growth:
        self._called("growth")
        return Growth(new=tokens)

    def open(self, stream: int, context: Sequence[int], tokens: int) -> None:
        self._expect(stream not in self.opened, f"stream {stream} opened twice")
        self.streams.add(stream)
        self.opened.append(stream)
        self._called("open")

    def unread(self, stream: int, length: int) -> int:
        self._expect(stream in self.streams, f"unread of stream {stream}, which is not open")
        self._called("unread")
        return 0

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Draft | None]:
        self._expect(len({request.stream for request in requests}) == len(requests) > 0, "not one request a stream")
        for request in requests:
            self._expect(request.stream in self.streams, f"stream {request.stream} is not open")
            self._expect(request.most >= 1, "asked for nothing")
            self._expect(request.position == len(request.context), "the position is not the context's length")
        self.calls.append(tuple(requests))
        self._called("propose")
        time.sleep(self.seconds)
        return [self._draft(request) for request in requests]

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._expect(0 <= outcome.kept <= outcome.drafted > 0, f"{outcome} cannot be")
            self._expect(outcome.stream in self.streams, f"stream {outcome.stream} is not open")
        self.outcomes.extend(outcomes)
        self._called("observe")

    def close(self, stream: int) -> None:
        self._expect(stream in self.streams, f"stream {stream} closed, and is not open")
        self.streams.discard(stream)
        self.closed.append(stream)
        self._called("close")

    def kept(self) -> int:
        return 0

    def shed(self, room: int) -> int:
        return 0

    def costs(self) -> Costs:
        return Costs()

    def release(self) -> None:
        return None

    def _draft(self, request: DraftRequest) -> Draft | None:
        tokens = tuple(self.answer(request) or ())
        if not tokens:
            return None
        return Draft(tokens, tuple(map(tuple, self.others(request, tokens))) if request.alternatives else ())

    def _expect(self, condition: bool, otherwise: str) -> None:
        if not condition:
            VIOLATIONS.append(f"{self.name}: {otherwise}")

    def _called(self, method: str) -> None:
        if method == self.raises:
            raise RuntimeError(f"planted in {method}")


class ReadingProposer(FakeProposer):
    """Has contexts to read, and reads ahead.

    Args:
        starts_at: tokens that every stream has read when it opens.

    Attributes:
        piece: the most that it reads in a call.
        order: its calls that read or draft.
    """

    def __init__(self, answer: Answer, name: str = "fake", raises: str = "", starts_at: int = 0) -> None:
        super().__init__(answer, name, raises)
        self.piece = 1 << 30
        self.order: list[str] = []
        self._starts_at = starts_at
        self._done: dict[int, int] = {}

    def unread(self, stream: int, length: int) -> int:
        super().unread(stream, length)
        return max(0, length - self._done.get(stream, self._starts_at))

    def read(self, stream: int, context: Sequence[int], most: int) -> None:
        self._expect(stream in self.streams, f"stream {stream} is not open")
        self._called("read")
        done = self._done.get(stream, self._starts_at)
        tokens = min(len(context) - 1 - done, most, self.piece)
        self.order.append(f"read {tokens}")
        self._done[stream] = done + tokens

    def propose(self, requests: Sequence[DraftRequest]) -> Sequence[Draft | None]:
        self.order.append("propose")
        self._done |= {request.stream: len(request.context) for request in requests}
        return super().propose(requests)


def oracle(replies: Mapping[tuple[int, ...], Sequence[int]], right: int | None = None) -> Answer:
    """Proposes the known replies, by prompt; after ``right`` right tokens it is wrong."""

    def answer(request: DraftRequest) -> list[int] | None:
        context = tuple(request.context)
        for prompt, reply in replies.items():
            done = len(context) - len(prompt)
            if done >= 0 and context == (*prompt, *reply[:done]):
                tokens = list(reply[done : done + request.most])
                if right is not None:
                    tokens[right:] = [(token + 1) % 50 for token in tokens[right:]]
                return tokens
        return None

    return answer


def beside(replies: Mapping[tuple[int, ...], Sequence[int]], rank: int = 0) -> Others:
    """Alternatives with the known reply's token at ``rank`` among others, wherever the draft has another token."""

    def others(request: DraftRequest, tokens: Sequence[int]) -> list[list[int]]:
        right = oracle(replies)(request) or ()
        found = []
        for token, wanted in zip(tokens, right, strict=False):
            place = [(token + 2 + more) % 50 for more in range(request.alternatives)]
            place = [other for other in place if other != wanted]
            if token != wanted:
                place.insert(rank, wanted)
            found.append(place[: request.alternatives])
        return found

    return others


def noise(seed: int, vocab: int, silent: float = 0.2) -> Answer:
    """Proposes any number of any tokens, or nothing."""
    rng = random.Random(seed)

    def answer(request: DraftRequest) -> list[int] | None:
        if rng.random() < silent:
            return None
        return [rng.randrange(vocab) for _ in range(rng.randint(1, request.most))]

    return answer


def always(token: int) -> Answer:
    """Proposes one token again and again, as many as allowed."""
    return lambda request: [token] * request.most

"""A reader and a client for tests without a tokenizer or an event loop."""

from __future__ import annotations

from collections.abc import Callable

from tf_host.requests import Delta, Done, Event, Failed


class LetterReader:
    """Every token is one letter; a stop string is held back while it may still come."""

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self._stop = stop
        self._held = ""
        self.fed = 0

    def feed(self, token: int) -> tuple[str, bool]:
        self.fed += 1
        self._held += letter(token)
        for stop in self._stop:
            if stop in self._held:
                return self._held[: self._held.index(stop)], True
        keep = max((n for s in self._stop for n in range(1, len(s)) if self._held.endswith(s[:n])), default=0)
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return text, False

    def finish(self) -> str:
        text, self._held = self._held, ""
        return text


def letter(token: int) -> str:
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[token]


class Sink:
    """A client that keeps its events; ``on_event`` may cancel."""

    def __init__(self, on_event: Callable[[Sink, Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self.cancelled = False
        self._on_event = on_event

    def send(self, event: Event) -> None:
        assert not self.ended, f"{event} after the end"
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(self, event)

    @property
    def ended(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Done | Failed)

    @property
    def deltas(self) -> list[Delta]:
        return [event for event in self.events if isinstance(event, Delta)]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token.id for delta in self.deltas for token in delta.tokens)

    @property
    def done(self) -> Done:
        assert isinstance(self.events[-1], Done), self.events[-1]
        return self.events[-1]

    @property
    def failed(self) -> Failed:
        assert isinstance(self.events[-1], Failed), self.events[-1]
        return self.events[-1]

"""The reader of one reply: its tokens' text, and where a stop string ends it."""

from __future__ import annotations

from tf_host.text.decode import Decoder
from tf_host.text.stops import StopStrings
from tf_host.text.thinking import ThinkingSplit


class ReplyReader:
    """Implements ``tf_host.requests.Reader``; constant work a token.

    Args:
        decoder: turns tokens into text.
        stops: the reply's stop strings.
        hidden: tokens without text of their own: end tokens and control tokens.
        thinking: where stop strings wait for the end of the reasoning, else ``None``.
    """

    def __init__(
        self,
        decoder: Decoder,
        stops: StopStrings,
        hidden: frozenset[int],
        thinking: ThinkingSplit | None = None,
    ) -> None:
        self._decoder = decoder
        self._stops = stops
        self._hidden = hidden
        self._thinking = thinking

    def feed(self, token: int) -> tuple[str, bool]:
        """Text that is now safe to send, and whether a stop string was completed by this token."""
        if token in self._hidden:
            return "", False
        return self._read(self._decoder.add(token))

    def finish(self) -> str:
        """The text still held back, at the end of a reply that no stop string ended."""
        text, stopped = self._read(self._decoder.flush())
        if stopped:
            return text
        thought = "".join(part for _, part in self._thinking.flush()) if self._thinking else ""
        return text + thought + self._stops.flush()

    def _read(self, text: str) -> tuple[str, bool]:
        if self._thinking is None:
            return self._stops.feed(text)
        safe = ""
        for kind, part in self._thinking.feed(text):
            if kind != "answer":
                safe += part
                continue
            answer, stopped = self._stops.feed(part)
            safe += answer
            if stopped:
                return safe, True
        return safe, False

"""The reader of one reply: its tokens' text, and where a stop string ends it."""

from __future__ import annotations

from tf_host.text.decode import Decoder
from tf_host.text.first_call import FirstCall
from tf_host.text.stops import StopStrings
from tf_host.text.thinking import Part, ThinkingSplit


class ReplyReader:
    """Implements ``tf_host.requests.Reader``; constant work a token.

    Args:
        decoder: turns tokens into text.
        stops: the reply's stop strings.
        hidden: tokens without text of their own: end tokens and control tokens.
        thinking: where stop strings wait for the end of the reasoning, else ``None``.
        call: where a second call ends the reply, else ``None``.
    """

    def __init__(
        self,
        decoder: Decoder,
        stops: StopStrings,
        hidden: frozenset[int],
        thinking: ThinkingSplit | None = None,
        call: FirstCall | None = None,
    ) -> None:
        self._decoder = decoder
        self._stops = stops
        self._hidden = hidden
        self._thinking = thinking
        self._call = call

    def feed(self, token: int) -> tuple[str, bool]:
        """Text that is now safe to send, and whether this token ended the reply: by a stop string, or a second call."""
        if token in self._hidden:
            return "", False
        return self._read(self._decoder.add(token))

    def finish(self) -> str:
        """The text still held back, at the end of a reply that ``feed`` did not end."""
        text, stopped = self._read(self._decoder.flush())
        if self._thinking is not None and not stopped:
            last, stopped = self._cut(self._thinking.flush())
            text += last
        return text if stopped else text + self._to_first_call(self._stops.flush(), last=True)[0]

    def _read(self, text: str) -> tuple[str, bool]:
        if self._thinking is None:
            return self._answer(text)
        return self._cut(self._thinking.feed(text))

    def _answer(self, text: str) -> tuple[str, bool]:
        safe, stopped = self._stops.feed(text)
        safe, ended = self._to_first_call(safe, last=stopped)
        return safe, stopped or ended

    def _to_first_call(self, text: str, *, last: bool) -> tuple[str, bool]:
        if self._call is None:
            return text, False
        safe, ended = self._call.feed(text)
        return (safe + self._call.flush(), False) if last and not ended else (safe, ended)

    def _cut(self, parts: list[Part]) -> tuple[str, bool]:
        """Stop strings are looked for in the answer only."""
        safe = ""
        for kind, part in parts:
            if kind != "answer":
                safe += part
                continue
            answer, stopped = self._answer(part)
            safe += answer
            if stopped:
                return safe, True
        return safe, False

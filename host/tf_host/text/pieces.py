"""The bytes of each token, for tokenizers that spell text in bytes."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
_SPACE = "\u2581"


@cache
def _byte_of() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the rest are shifted past U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def _byte_level(token: str) -> bytes:
    alphabet = _byte_of()
    try:
        return bytes(alphabet[char] for char in token)
    except KeyError:
        return token.encode()


def _byte_fallback(token: str) -> bytes:
    match = _BYTE_TOKEN.match(token)
    return bytes([int(match[1], 16)]) if match else token.replace(_SPACE, " ").encode()


class Pieces:
    """Bytes by token id; a reply's text is the UTF-8 text of its tokens' bytes, one after another.

    Attributes:
        strips: whether decoding drops one space at the start of a text.
        longest: bytes of the longest piece.
    """

    def __init__(self, table: list[bytes], *, strips: bool) -> None:
        self._table = table
        self.strips = strips
        self.longest = max(map(len, table), default=1)

    def __getitem__(self, token: int) -> bytes:
        """Bytes of a token; none for an id that the tokenizer does not know."""
        return self._table[token] if 0 <= token < len(self._table) else b""

    @classmethod
    def of(cls, backend: Any) -> Pieces | None:
        """The table of a ``tokenizers.Tokenizer``, or ``None`` when its tokens are not simply bytes."""
        if backend.decoder is None:
            return None
        decoder = json.loads(backend.decoder.__getstate__())
        steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
        kinds = [step["type"] for step in steps]
        if kinds == ["ByteLevel"]:
            spell, strips = _byte_level, False
        elif kinds[:3] == ["Replace", "ByteFallback", "Fuse"] and kinds[3:] in ([], ["Strip"]):
            if steps[0]["pattern"] != {"String": _SPACE} or steps[0]["content"] != " ":
                return None
            if kinds[3:] and (steps[3]["content"], steps[3]["start"], steps[3]["stop"]) != (" ", 1, 0):
                return None
            spell, strips = _byte_fallback, bool(kinds[3:])
        else:
            return None
        by_id = {token: spell(text) for text, token in backend.get_vocab(with_added_tokens=False).items()}
        by_id |= {token: added.content.encode() for token, added in backend.get_added_tokens_decoder().items()}
        return cls([by_id.get(token, b"") for token in range(max(by_id, default=-1) + 1)], strips=strips)

"""Incremental decoding: one token in, the text that it completes out.

mlx-lm's own detokenizers are not used: the byte-level one drops a reply's first space, fails on added tokens past its
alphabet and rescans every undecodable run, and the generic one decodes a whole line again for each token.
"""

from __future__ import annotations

import codecs
from typing import Any, Protocol

from tf_host.text.pieces import Pieces


class Decoder(Protocol):
    """Text of a growing token sequence; constant work a token."""

    def add(self, token: int) -> str:
        """Text that this token completes; an unfinished character is held back."""

    def flush(self) -> str:
        """Text still held back."""


class ByteDecoder:
    """For tokenizers whose tokens are bytes."""

    def __init__(self, pieces: Pieces, *, strip: bool) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = strip and pieces.strips

    def add(self, token: int) -> str:
        piece = self._pieces[token]
        if self._strip and piece:
            piece, self._strip = piece.removeprefix(b" "), False
        return self._utf8.decode(piece)

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class WindowDecoder:
    """For any other tokenizer: decodes a few tokens again, with those before them for context."""

    _LONGEST = 16
    """Tokens that may wait for the rest of a character before they are let out as they are."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._before: list[int] = []
        self._new: list[int] = []

    def add(self, token: int) -> str:
        self._new.append(token)
        text = self._pending()
        if text.endswith("\ufffd") and len(self._new) < self._LONGEST:
            return ""
        return self._let_out(text)

    def flush(self) -> str:
        return self._let_out(self._pending())

    def _pending(self) -> str:
        known = self._decode(self._before)
        return self._decode(self._before + self._new)[len(known) :]

    def _let_out(self, text: str) -> str:
        if text:
            self._before, self._new = self._new, []
        return text

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

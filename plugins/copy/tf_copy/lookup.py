"""The longest earlier match of a stream's last tokens."""

from collections.abc import Sequence

NGRAM = 3  # a match is looked up by its last tokens, this many
EXTENT = 64  # tokens compared before each candidate
CANDIDATES = 256  # earlier places compared, newest first, so that a call's cost has a bound


class SuffixLookup:
    """A stream's tokens, and where each n-gram of them ended before."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}  # n-gram -> the position after its newest occurrence
        self._older: list[int] = []  # [that position] -> the one before it with the same n-gram, 0 for none

    def read(self, context: Sequence[int]) -> None:
        """Take in what `context` holds past the tokens read so far: it only ever grows at its end."""
        for token in context[len(self.tokens) :]:
            gram = tuple(self.tokens[-NGRAM:])  # indexed only now that a token follows it
            self._older.append(self._newest.get(gram, 0))
            self._newest[gram] = len(self.tokens)
            self.tokens.append(token)

    def longest(self) -> tuple[int, int]:
        """(length, position after it) of the longest earlier match, the newest of equals; (0, 0) for none."""
        tokens, end = self.tokens, len(self.tokens)
        length, found, place = 0, 0, self._newest.get(tuple(tokens[-NGRAM:]), 0)
        for _ in range(CANDIDATES):
            if not place or length == EXTENT:
                break
            if length < place and tokens[place - 1 - length] == tokens[end - 1 - length]:
                most = min(place, EXTENT)
                extent = next((n for n in range(most) if tokens[place - 1 - n] != tokens[end - 1 - n]), most)
                length, found = (extent, place) if extent > length else (length, found)
            place = self._older[place]
        return length, found

    def copy(self, place: int, most: int, end_ids: frozenset[int]) -> list[int]:
        """1 to `most` tokens from `place` on, read from the copy itself where it overtakes its source."""
        copied: list[int] = []
        while len(copied) < most and (not copied or copied[-1] not in end_ids):
            ahead = place + len(copied) - len(self.tokens)
            copied.append(copied[ahead] if ahead >= 0 else self.tokens[ahead])
        return copied

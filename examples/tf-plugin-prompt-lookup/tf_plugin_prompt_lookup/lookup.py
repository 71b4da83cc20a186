"""Where each n-gram of a prompt ends."""

from __future__ import annotations

from collections.abc import Sequence


class PromptIndex:
    """A prompt, and the newest place of each of its n-grams.

    Args:
        prompt: token ids.
        ngram: length of the n-grams.
    """

    def __init__(self, prompt: Sequence[int], ngram: int) -> None:
        self._prompt = tuple(prompt)
        self._ngram = ngram
        ends = range(ngram, len(self._prompt))  # a token has to follow
        self._places = {self._prompt[end - ngram : end]: end for end in ends}

    def after(self, context: Sequence[int], most: int) -> tuple[int, ...]:
        """Up to ``most`` tokens that follow the context's last n-gram in the prompt; empty where it is not there."""
        place = self._places.get(tuple(context[-self._ngram :]))
        return () if place is None else self._prompt[place : place + most]

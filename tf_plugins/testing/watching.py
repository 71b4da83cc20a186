"""What becomes of proposers in a server: which drafts they gave it, and which failures it counted."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tf_plugins.types import Draft, Proposer

_FAILED = re.compile(r"proposer ('.+?'|\".+?\")( failed |: a draft was dropped: )")
"""How the log begins to tell of a failure; the host logs the first one of each method."""


@contextmanager
def failures() -> Iterator[list[str]]:
    """Collects the failures of proposers that servers count meanwhile: of each method the first, on one line."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines = record.getMessage().splitlines()
            if _FAILED.match(lines[0]):
                found.append(": ".join(dict.fromkeys((lines[0], lines[-1]))))  # the last one of a traceback

    handler, logger = Handler(logging.WARNING), logging.getLogger("tf_host.lanes")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


@contextmanager
def offers(proposers: Sequence[Proposer]) -> Iterator[list[Draft]]:
    """Collects the drafts that these proposers give meanwhile, whoever asks; those with slots are left alone."""
    found: list[Draft] = []

    def noting(propose: Callable[..., Any]) -> Callable[..., Any]:
        def noted(requests: Any) -> Any:
            answers = propose(requests)
            if isinstance(answers, Sequence):
                found.extend(draft for draft in answers if isinstance(draft, Draft) and draft.tokens)
            return answers

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for proposer in proposers:
            with suppress(AttributeError):
                patch.setattr(proposer, "propose", noting(proposer.propose))
        yield found

"""How a failure is logged, and what is remembered of it."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Failures:
    """What is remembered of something that fails.

    Attributes:
        count: how often it failed.
        last: what failed the last time, on one line.
    """

    count: int = 0
    last: str = ""


def log_fault(logger: logging.Logger, message: str, error: BaseException) -> None:
    """Log ``message`` with the error's traceback as text.

    Not as ``exc_info``: whoever keeps a log record would keep the traceback's frames, and with them the caches of the
    stream that failed, long after their bytes were given back.
    """
    text = "".join(traceback.format_exception(error)).rstrip()
    logger.error("%s\n%s", message, text)


def one_line(text: str) -> str:
    """A text on one line, in printable ASCII, cut where it is long."""
    safe = text[: _LONGEST + 1].encode("unicode_escape").decode("ascii")
    return safe if len(safe) <= _LONGEST else f"{safe[:_LONGEST]}..."

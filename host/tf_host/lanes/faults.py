"""How a failure is logged."""

from __future__ import annotations

import logging
import traceback


def log_fault(logger: logging.Logger, message: str, error: Exception) -> None:
    """Log ``message`` with the error's traceback as text.

    Not as ``exc_info``: whoever keeps a log record would keep the traceback's frames, and with them the caches of the
    stream that failed, long after their bytes were given back.
    """
    text = "".join(traceback.format_exception(error)).rstrip()
    logger.error("%s\n%s", message, text)

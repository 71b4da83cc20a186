"""Logs, on stderr."""

from __future__ import annotations

import logging
import sys

# Libraries that report every connection and file at a level where people look for this server's lines; sse_starlette
# writes whole replies there.
_TALKATIVE = (
    "asyncio",
    "filelock",
    "httpcore",
    "httpx",
    "huggingface_hub",
    "sse_starlette",
    "transformers",
    "urllib3",
)


def log_to_stderr(level: str) -> None:
    """Log at ``level``, plugins of others included; stdout is left to data.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S", level=least
    )
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))

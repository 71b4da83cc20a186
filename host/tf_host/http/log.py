"""What the HTTP side logs; nothing that a client wrote gets in unescaped."""

from __future__ import annotations

import logging
import traceback

logger = logging.getLogger("tf_host.http")

_LONGEST = 300


def escaped(text: str) -> str:
    """A text on one line, in printable ASCII, cut where it is long."""
    safe = text[:_LONGEST].encode("unicode_escape").decode("ascii")
    return safe + ("..." if len(text) > _LONGEST else "")


def fault(error: BaseException, where: str) -> None:
    """A bug: the frames, and the message escaped, because it may quote a request."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s in %s: %s\n%s", type(error).__name__, escaped(where), escaped(str(error)), frames)

"""The valid name that a wrong one was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The closest of ``valid``, compared without case and with ``-`` as ``_``; ``None`` when none is close."""
    by_key = {_key(candidate): candidate for candidate in valid}
    close = get_close_matches(_key(name), by_key, n=1, cutoff=cutoff)
    return by_key[close[0]] if close else None


def did_you_mean(name: str, valid: Iterable[str], otherwise: str) -> str:
    """A hint that names the closest of ``valid``, or ``otherwise`` when none is close."""
    found = nearest(name, valid)
    return f"did you mean {found}?" if found else otherwise


def _key(name: str) -> str:
    return name.lstrip("-").lower().replace("-", "_")

"""API keys."""

from __future__ import annotations

import hmac
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tf_host.http.errors import error_response
from tf_host.http.origins import is_loopback
from tf_host.http.web import PAGE
from tf_host.settings import ServerSettings
from tf_host.settings.fields import is_key
from tf_plugins.errors import SettingsError

logger = logging.getLogger("tf_host.http")

_OPEN = frozenset({*PAGE, "/health", "/favicon.ico"})
"""Paths that need no key: what is behind them names no request."""

_MISSING = "this server asks for an API key; send Authorization: Bearer KEY"
_NOT_VALID = "the API key is not valid; send one that this server was given"

_SCOPE_KEY = "tf_key"


class Keys:
    """The keys that requests may carry; none means that no key is asked for.

    Args:
        keys: fixed keys.
        file: a file with one key a line, read again when it changes.

    Raises:
        SettingsError: the file cannot be read, others can read it, or it holds no key or a line that is none.
    """

    def __init__(self, keys: Sequence[str] = (), file: Path | None = None) -> None:
        self._keys = tuple(key.encode() for key in keys)
        self._file = file
        self._stamp: tuple[int, int, int, int, int] | None = None
        if file is not None:
            self._stamp, self._keys = _read(file)

    @classmethod
    def of(cls, settings: ServerSettings) -> Keys:
        """The keys of a server's settings."""
        fixed = (settings.api_key.get_secret_value(),) if settings.api_key else ()
        return cls(fixed, settings.api_key_file)

    @property
    def asked_for(self) -> bool:
        """Whether requests need a key."""
        return bool(self._keys) or self._file is not None

    def name_of(self, given: bytes) -> str | None:
        """A name for a valid key, for logs and plugins; every key is compared, in constant time."""
        self._reread()
        found = None
        for number, known in enumerate(self._keys, 1):
            if hmac.compare_digest(given, known):
                found = f"key {number}"
        return found

    def _reread(self) -> None:
        """Takes over a changed file; while it cannot be used, the keys read before stay."""
        if self._file is None:
            return
        try:
            if _stamp(self._file) == self._stamp:
                return
            self._stamp, self._keys = _read(self._file)
            logger.info("%s was read again", self._file)
        except (OSError, SettingsError) as error:
            stamp = _stamp_or_none(self._file)
            if stamp != self._stamp:
                logger.error("the API keys stay as they were: %s", str(error).replace("\n", "; "))
                self._stamp = stamp


class KeyCheck:
    """Asks every request for a key, before its body is read.

    The key's name goes to ``scope["tf_key"]``.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and self._keys.asked_for:
            given = _bearer(Headers(scope=scope))
            name = self._keys.name_of(given)
            if name is None and scope["path"] not in _OPEN:
                response = error_response(_NOT_VALID if given else _MISSING, status=401, code="invalid_api_key")
                await response(scope, receive, send)
                return
            scope[_SCOPE_KEY] = name
        await self._app(scope, receive, send)


def key_name(scope: Scope) -> str | None:
    """The name of the key that a request carried; ``None`` without one, and where none is asked for."""
    name: str | None = scope.get(_SCOPE_KEY)
    return name


def is_trusted(scope: Scope) -> bool:
    """Whether a request carried a key, or none is asked for."""
    return scope.get(_SCOPE_KEY, "") is not None


def warn_if_open(host: str, keys: Keys) -> str | None:
    """What to warn of when the server can be reached from other machines without a key."""
    if keys.asked_for or is_loopback(host):
        return None
    return (
        f"--host {host} can be reached from other machines, and no API key is asked for; "
        "set TF_API_KEY or --api-key-file"
    )


def _bearer(headers: Headers) -> bytes:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    # Spaces and tabs alone: in Latin-1, a byte of an UTF-8 letter may look like white space.
    return key.strip(" \t").encode("latin-1") if scheme.lower() == "bearer" else b""


def _stamp(file: Path) -> tuple[int, int, int, int, int]:
    """Changes whenever the file's text, owner or mode may have."""
    status = file.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _stamp_or_none(file: Path) -> tuple[int, int, int, int, int] | None:
    try:
        return _stamp(file)
    except OSError:
        return None


def _read(file: Path) -> tuple[tuple[int, int, int, int, int], tuple[bytes, ...]]:
    """A key file's stamp and keys, from one open file."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            status = os.fstat(lines.fileno())
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SettingsError(f"--api-key-file {file} can be read by others\nhint: chmod 600 {file}")
            stamp = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            keys = tuple(_keys(file, lines))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--api-key-file {file} cannot be read: {error}\nhint: it holds one key a line") from error
    if not keys:
        raise SettingsError(f"--api-key-file {file} holds no key\nhint: write one key a line")
    return stamp, keys


def _keys(file: Path, lines: Iterable[str]) -> Iterator[bytes]:
    for number, line in enumerate(lines, 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not is_key(key):
            raise SettingsError(
                f"--api-key-file {file} has white space or a control character within the key of line {number}\n"
                "hint: write one key a line, and comments on lines that begin with #"
            )
        yield key.encode()

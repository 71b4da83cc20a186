"""Digests of what weight files hold, read once and kept for as long as a file is not touched."""

from __future__ import annotations

import hashlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tf_plugins.folders import cache_folder, write_whole

__all__ = ["content_digest"]

log = logging.getLogger(__name__)

_CHUNK, _READ = 1 << 28, 1 << 22
"""Bytes that one thread digests, and of one read."""

_SMALL = 1 << 26
"""Bytes of a file whose digest is not worth keeping."""

_SOME_TIME = 2.0
"""Seconds; reading that takes longer is logged."""


def content_digest(path: Path) -> str:
    """SHA-256 over the SHA-256 of each 256 MiB of a file, in hex.

    Kept in the cache folder under the file's path, size, times and inode, so that only a new file is read, by all
    cores. A folder that cannot be written costs that at each start.

    Raises:
        OSError: the file cannot be read.
    """
    place = path.resolve()
    stat = place.stat()
    if stat.st_size < _SMALL:
        return _digest(place, stat.st_size)
    facts = (place, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)
    kept = cache_folder() / "digests" / hashlib.sha256(repr(facts).encode()).hexdigest()
    try:
        digest = kept.read_text("ascii")
        if len(digest) == 64:
            return digest
    except (OSError, ValueError):
        pass
    began = time.perf_counter()
    digest = _digest(place, stat.st_size)
    if (seconds := time.perf_counter() - began) > _SOME_TIME:
        log.info("read %s once to tell it from others: %.0f s, not needed again while it stays as it is", path, seconds)
    try:
        write_whole(kept, digest)
    except OSError as error:
        log.debug("the digest of %s cannot be kept in %s: %s", path, kept.parent, error)
    return digest


def _digest(path: Path, size: int) -> str:
    def chunk(begin: int) -> bytes:
        digest, left, buffer = hashlib.sha256(), _CHUNK, memoryview(bytearray(_READ))
        with path.open("rb", buffering=0) as file:
            file.seek(begin)
            while left and (got := file.readinto(buffer[: min(left, _READ)])):
                digest.update(buffer[:got])
                left -= got
        return digest.digest()

    with ThreadPoolExecutor() as threads:
        return hashlib.sha256(b"".join(threads.map(chunk, range(0, size, _CHUNK)))).hexdigest()

"""Copies of kept prompt states that survive a restart."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

from tf_host.prompts.files import Damaged, read_arrays, read_header, write
from tf_plugins.errors import Refused
from tf_plugins.types import Refusal, State

log = logging.getLogger(__name__)

LIMIT = 8 << 30
"""Bytes that a folder may have; past it the oldest files go."""

_PART, _PART_AGE_S = ".part", 3_600


class StateFolder:
    """A folder of safetensors files, one a state, named by a digest of key and ids. Engine thread only.

    A copy is written piece by piece while nothing else is to do, under another name until it is whole.

    Args:
        folder: made when it is not there; readable by its owner only, for it holds what users wrote.
        key: what a file must have been written under to be read.
        limit: bytes of all files.
    """

    def __init__(self, folder: Path, key: str, limit: int = LIMIT) -> None:
        self.folder, self.key, self.limit = folder, key, limit
        self._waiting: OrderedDict[bytes, State] = OrderedDict()
        self._writing: tuple[bytes, Iterator[None]] | None = None
        self._whole: set[Path] = set()  # files that this process wrote or read; another is written anew
        make_folder(folder)

    def path(self, ids: bytes) -> Path:
        """The file of a state."""
        return self.folder / f"{blake2b(self.key.encode() + b'/' + ids, digest_size=16).hexdigest()}.safetensors"

    def write(self, ids: bytes, state: State) -> None:
        """Queue a copy."""
        if state.nbytes <= self.limit:
            self._waiting[ids] = state

    def step(self) -> bool:
        """Write one more piece; whether there is more."""
        if self._writing is None:
            if not self._waiting:
                return False
            ids, state = self._waiting.popitem(last=False)
            self._writing = ids, self._pieces(ids, state)
        try:
            next(self._writing[1])
        except StopIteration:
            self._writing = None
        except OSError as error:
            log.warning("kept prompt not written to %s: %s", self.folder, error)
            self._writing = None
        return self._writing is not None or bool(self._waiting)

    def forget(self, ids: bytes, *, remove: bool) -> None:
        """The state is gone from memory: stop writing it, and ``remove`` its file where it is of no more use."""
        self._waiting.pop(ids, None)
        if self._writing is not None and self._writing[0] == ids:
            cast("Any", self._writing[1]).close()
            self._writing = None
        if remove:
            self._whole.discard(self.path(ids))
            with contextlib.suppress(OSError):
                self.path(ids).unlink(missing_ok=True)

    def unusable(self, ids: bytes) -> None:
        """What was read of a state is no state of this model: its file is written anew when there is one."""
        self._whole.discard(self.path(ids))

    def read(self, room: Callable[[], int]) -> Iterator[tuple[bytes, dict[str, Any], str]]:
        """``(ids, arrays, file name)`` of usable files that fit ``room()``, the newest first.

        A file that is damaged, of another key, or a copy under another name is skipped with one line in the log.
        """
        self._sweep()
        for path, _, size in reversed(self._files()):
            try:
                with path.open("rb") as file:
                    header = read_header(file, size)
                    if header.metadata.get("key") != self.key:
                        raise Damaged("it was written under another verdict or model")
                    ids = _parsed(header.metadata.get("ids", ""))
                    if path.name != self.path(ids).name:
                        raise Damaged(f"its ids belong in {self.path(ids).name}")
                    if header.nbytes <= room():
                        arrays = read_arrays(file, header)
                        self._whole.add(path)
                        yield ids, arrays, path.name
            except (OSError, Damaged) as error:
                log.warning("kept prompt %s skipped: %s", path.name, error)

    def _pieces(self, ids: bytes, state: State) -> Iterator[None]:
        target = self.path(ids)
        if target in self._whole and target.exists():
            os.utime(target)
            return
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=_PART)
        try:
            with os.fdopen(handle, "wb") as file:
                metadata = {"key": self.key, "ids": ",".join(map(str, array("q", ids)))}
                yield from write(cast("BinaryIO", file), state.arrays(), metadata)
            Path(name).replace(target)
            self._whole.add(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._bound()

    def _files(self) -> list[tuple[Path, float, int]]:
        """``(path, time, bytes)`` of all copies, the oldest first."""
        files = []
        for path in self.folder.glob("*.safetensors"):
            with contextlib.suppress(OSError):  # another server may share the folder
                found = path.stat()
                files.append((path, found.st_mtime, found.st_size))
        return sorted(files, key=lambda one: (one[1], one[0].name))

    def _bound(self) -> None:
        files = self._files()
        total = sum(size for _, _, size in files)
        for path, _, size in files:
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            total -= size

    def _sweep(self) -> None:
        """Remove what a server that was killed left half written."""
        for path in self.folder.glob(f"*{_PART}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _PART_AGE_S:
                    path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, if it is not there; ``Refused`` where it cannot be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(
            Refusal(
                "prompt_cache_dir",
                f"--prompt-cache-dir {folder} cannot be written to: {error.strerror}",
                "name a folder of your own",
                param="--prompt-cache-dir",
            )
        ) from error


def _parsed(ids: str) -> bytes:
    try:
        return array("q", [int(one) for one in ids.split(",")]).tobytes()
    except (ValueError, OverflowError) as error:
        raise Damaged("its ids cannot be read") from error

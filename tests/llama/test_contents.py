"""Digests of weight files: of the whole content, read again where a file was touched."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tf_llama import contents
from tf_llama.contents import content_digest


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some chunks and a rest, of which digests are kept."""
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path / "cache"))
    for name, value in (("_SMALL", 1), ("_CHUNK", 1_000), ("_READ", 300)):
        monkeypatch.setattr(contents, name, value)
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(3_500))
    return path


def tree(data: bytes) -> str:
    chunks = (data[at : at + 1_000] for at in range(0, len(data), 1_000))
    return hashlib.sha256(b"".join(hashlib.sha256(chunk).digest() for chunk in chunks)).hexdigest()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read."""
    found: list[Path] = []
    stock = contents._digest
    monkeypatch.setattr(contents, "_digest", lambda path, size: (found.append(path), stock(path, size))[1])
    return found


def test_every_byte_counts(file: Path) -> None:
    for at in (None, 0, 999, 1_000, 2_345, 3_499):
        data = bytearray(file.read_bytes())
        if at is not None:
            data[at] ^= 1
            file.write_bytes(data)
        assert content_digest(file) == tree(bytes(data))


def test_a_file_is_read_once_and_again_when_it_was_touched(file: Path, tmp_path: Path, reads: list[Path]) -> None:
    first = content_digest(file)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert content_digest(file) == content_digest(link) == first
    assert reads == [file]
    os.utime(file, ns=(1, 1))
    assert content_digest(file) == first
    assert reads == [file, file]
    swapped = tmp_path / "swapped"
    swapped.write_bytes(bytes(3_500))
    os.utime(swapped, ns=(1, 1))
    os.replace(swapped, file)
    assert content_digest(file) == tree(bytes(3_500))


def test_what_is_kept_and_damaged_is_made_again(file: Path, tmp_path: Path, reads: list[Path]) -> None:
    first = content_digest(file)
    [kept] = (tmp_path / "cache" / "digests").iterdir()
    kept.write_bytes(b"\xff")
    assert content_digest(file) == first == content_digest(file)
    assert reads == [file, file]


def test_a_folder_that_cannot_be_written_costs_a_read(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    (tmp_path / "no").write_text("a file")
    monkeypatch.setenv("TF_CACHE_DIR", str(tmp_path / "no"))
    assert content_digest(file) == content_digest(file) == tree(file.read_bytes())
    assert reads == [file, file]


def test_small_files_leave_nothing_behind(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_SMALL", 1 << 26)
    assert content_digest(file) == tree(file.read_bytes())
    assert not (tmp_path / "cache").exists()

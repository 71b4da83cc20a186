"""Copies on disk: whole or not there, checked to the last byte, and written beside serving."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.host.prompts.fakes import cpu_plan, ids
from tf_host.prompts import PromptStore, files
from tf_host.prompts.folder import StateFolder, make_folder
from tf_plugins import Refused

LAYERS, HEADS, HEAD = 3, 2, 8


@dataclass(frozen=True, slots=True, eq=False)
class RealState:
    keys: list[mx.array]

    @property
    def length(self) -> int:
        return self.keys[0].shape[1]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.keys)

    def arrays(self) -> dict[str, mx.array]:
        return {f"{layer}.k": array for layer, array in enumerate(self.keys)}


class RealModel:
    """Takes ``LAYERS`` arrays of one shape and dtype, as a family would."""

    def __init__(self, dtype: mx.Dtype = mx.bfloat16) -> None:
        self.dtype = dtype

    def state(self, length: int, seed: int = 0) -> RealState:
        keys = [
            mx.random.normal((HEADS, length, HEAD), key=mx.random.key(seed * 10 + layer)).astype(self.dtype)
            for layer in range(LAYERS)
        ]
        mx.eval(keys)
        return RealState(keys)

    def state_bytes(self, tokens: int) -> int:
        return LAYERS * HEADS * HEAD * tokens * self.dtype.size

    def load_state(self, arrays: dict[str, Any]) -> RealState:
        keys = [arrays.get(f"{layer}.k") for layer in range(LAYERS)]
        if len(arrays) != LAYERS or any(
            key is None or key.ndim != 3 or key.shape[::2] != (HEADS, HEAD) or key.dtype != self.dtype for key in keys
        ):
            raise ValueError("its arrays are not of this model")
        return RealState(keys)


def bits(state: RealState) -> list[bytes]:
    return [bytes(memoryview(array.reshape(-1).view(mx.uint8))) for array in state.keys]


def store(folder: Path, key: str = "verdict", model: RealModel | None = None, **more: Any) -> PromptStore:
    return PromptStore(model or RealModel(), cpu_plan(), folder=folder, key=key, **more)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with one state of 64 tokens."""
    kept = store(tmp_path)
    kept.add(ids(200), RealModel().state(64))
    kept.flush()
    return tmp_path


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.float32])
def test_a_state_survives_a_restart_bit_for_bit(tmp_path: Path, dtype: mx.Dtype) -> None:
    model = RealModel(dtype)
    kept = store(tmp_path, model=model)
    states = [model.state(64 * n, seed=n) for n in (1, 2, 3)]
    for n, one in enumerate(states):
        kept.add(ids(300, seed=n), one)
    kept.flush()
    again = store(tmp_path, model=model)
    assert again.load(1 << 30) == 3
    assert again.nbytes() == kept.nbytes()
    for n, one in enumerate(states):
        found = again.find(ids(300, seed=n))
        assert found is not None
        assert isinstance(found.state, RealState)
        assert bits(found.state) == bits(one)
        assert found.state.keys[0].dtype == dtype


def test_files_are_safetensors_with_the_key_and_the_ids(written: Path) -> None:
    arrays, metadata = mx.load(str(only_file(written)), return_metadata=True)
    assert set(arrays) == {"0.k", "1.k", "2.k"}
    assert metadata["key"] == "verdict"
    assert metadata["ids"] == ",".join(map(str, ids(64)))
    assert mx.array_equal(arrays["0.k"], RealModel().state(64).keys[0])


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    kept = store(folder)
    kept.add(ids(200), RealModel().state(64))
    kept.flush()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


def test_writing_goes_piece_by_piece_and_shows_nothing_before_it_is_whole(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add(ids(200), RealModel().state(64))
    assert list(tmp_path.iterdir()) == [], "adding writes nothing"
    steps = 0
    while kept.idle():
        steps += 1
        assert list(tmp_path.glob("*.safetensors")) == []
    assert steps == LAYERS
    assert only_file(tmp_path).suffix == ".safetensors"
    assert not kept.idle()


def test_a_large_array_is_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = RealModel().state(64)
    monkeypatch.setattr(files, "PIECE", -(-state.keys[0].nbytes // 4))
    kept = store(tmp_path)
    kept.add(ids(200), state)
    steps = 0
    while kept.idle():
        steps += 1
    assert steps == 4 * LAYERS
    again = store(tmp_path)
    again.load(state.nbytes)
    found = again.find(ids(200))
    assert found is not None
    assert bits(found.state) == bits(state)


@pytest.mark.parametrize("where", ["a file", "under a file"])
def test_a_folder_that_cannot_be_made_is_refused_by_its_flag(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    folder = tmp_path / "file" / ("" if where == "a file" else "under")
    with pytest.raises(Refused, match=f"--prompt-cache-dir {folder} cannot be written to: "):
        make_folder(folder)


def test_a_state_that_is_gone_is_not_written(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.add(ids(200), RealModel().state(64))
    assert kept.idle()
    kept.trim(0, None)
    assert not kept.idle()
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_gave_way_stays_on_disk_and_a_superseded_one_does_not(tmp_path: Path) -> None:
    kept, model = store(tmp_path), RealModel()
    prompt = ids(900)
    for length in (64, 320, 640):
        kept.add(prompt, model.state(length))
    kept.plan_saves(prompt, (320,), 640)
    kept.flush()
    kept.trim(0, None)
    again = store(tmp_path)
    assert again.load(1 << 30) == 1
    found = again.find(prompt)
    assert found is not None
    assert found.length == 320


def test_no_folder_means_no_writing() -> None:
    kept = PromptStore(RealModel(), cpu_plan())
    kept.add(ids(200), RealModel().state(64))
    assert not kept.idle()
    assert kept.load(1 << 30) == 0


def test_a_limit_of_zero_leaves_the_folder_alone(written: Path) -> None:
    kept = store(written, limit=0)
    assert kept.load(1 << 30) == 0
    assert not kept.idle()


def flipped(at: Callable[[bytes], int]) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        place = at(data)
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return damage


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "a few bytes": lambda data: data[:5],
    "header cut": lambda data: data[:50],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"\0",
    "half": lambda data: data[: len(data) // 2],
    "no safetensors": lambda data: b"hello, world" * 1_000,
    "a huge header": lambda data: (1 << 62).to_bytes(8, "little") + data[8:],
    "first bit of the data": flipped(lambda data: 8 + int.from_bytes(data[:8], "little")),
    "last bit of the data": flipped(lambda data: len(data) - 1),
    "an id": flipped(lambda data: data.index(b'"ids":"') + 7),
    "the checksum": flipped(lambda data: data.index(b'"checksum":"') + 12),
    "a shape": lambda data: data.replace(b'"shape":[2,64,8]', b'"shape":[2,32,8]'),
    "an offset": lambda data: data.replace(b'"data_offsets":[0,2048]', b'"data_offsets":[0,2049]'),
    "a dtype": lambda data: data.replace(b'"BF16"', b'"Q4_7"'),
    "two arrays of one size swapped": lambda data: (
        data.replace(b'"0.k"', b'"9.k"').replace(b'"1.k"', b'"0.k"').replace(b'"9.k"', b'"1.k"')
    ),
    "metadata that is no text": lambda data: data.replace(b'"key":"verdict"', b'"key":[1,2,3,4]'),
    "a shape of fractions": lambda data: data.replace(b'"shape":[2,64,8]', b'"shape":[4,.5e2,8]'),
    "a negative shape": lambda data: data.replace(b'"shape":[2,64,8]', b'"shape":[2,-4,-1]'),
    "brackets": lambda data: (len(data) - 8).to_bytes(8, "little") + b"[" * (len(data) - 8),
    "a list": lambda data: (2).to_bytes(8, "little") + b"[]",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_skipped_with_one_line(written: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = only_file(written)
    data = path.read_bytes()
    damaged = DAMAGE[damage](data)
    assert damaged != data
    path.write_bytes(damaged)
    good = store(written)
    good.add(ids(200, seed=1), RealModel().state(64))
    good.flush()
    again = store(written)
    with caplog.at_level(logging.WARNING):
        assert again.load(1 << 30) == 1
    assert again.find(ids(200)) is None
    assert again.find(ids(200, seed=1)) is not None
    (record,) = caplog.records
    assert path.name in record.getMessage()
    assert "\n" not in record.getMessage()
    again.add(ids(200), RealModel().state(64))
    again.flush()
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("key", "model", "says"),
    [("other", RealModel(), "another verdict"), ("verdict", RealModel(mx.float32), "not of this model")],
)
def test_a_state_of_another_server_is_skipped_with_one_line_and_left(
    written: Path, key: str, model: RealModel, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert store(written, key=key, model=model).load(1 << 30) == 0
    (record,) = caplog.records
    assert says in record.getMessage()
    assert store(written).load(1 << 30) == 1


def test_a_copy_of_a_file_is_skipped_with_one_line(written: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A backup, or a conflict of two folders kept the same: whichever is newer, the bytes are counted once."""
    path = only_file(written)
    for name, age in (("backup.safetensors", -10), ("conflict.safetensors", 10)):
        shutil.copy(path, written / name)
        os.utime(written / name, (path.stat().st_mtime + age,) * 2)
    again = store(written)
    with caplog.at_level(logging.WARNING):
        assert again.load(1 << 30) == 1
    assert (again.count(), again.nbytes()) == (1, RealModel().state(64).nbytes)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"kept prompt {name} skipped: its ids belong in {path.name}"
        for name in ("conflict.safetensors", "backup.safetensors")
    ]
    again.trim(0, None)
    assert (again.count(), again.nbytes()) == (0, 0)


def test_keys_do_not_share_files(tmp_path: Path) -> None:
    for key in ("one", "two"):
        kept = store(tmp_path, key=key)
        kept.add(ids(200), RealModel().state(64))
        kept.flush()
    assert len(list(tmp_path.iterdir())) == 2


def test_loading_stops_at_its_room_the_newest_first(tmp_path: Path) -> None:
    model = RealModel()
    one = model.state(64).nbytes
    for n in range(4):
        kept = store(tmp_path)
        kept.add(ids(200, seed=n), model.state(64, seed=n))
        kept.flush()
        os.utime(kept._folder.path(next(iter(kept._entries))), (n, n))  # type: ignore[union-attr]
    again = store(tmp_path)
    assert again.load(2 * one) == 2
    assert [again.find(ids(200, seed=n)) is not None for n in range(4)] == [False, False, True, True]
    limited = store(tmp_path, limit=3 * one)
    assert limited.load(100 * one) == 3
    limited.trim(2 * one, None)
    assert [limited.find(ids(200, seed=n)) is not None for n in range(4)] == [False, False, True, True]
    assert not limited.idle(), "what was read is not written again"


def test_the_folder_keeps_within_its_bound(tmp_path: Path) -> None:
    model = RealModel()
    folder = StateFolder(tmp_path, "key", limit=3 * (model.state(64).nbytes + 2_000))
    names = []
    for n in range(6):
        key = bytes([n]) * 8 * 64
        folder.write(key, model.state(64, seed=n))
        while folder.step():
            pass
        os.utime(folder.path(key), (n, n))
        names.append(folder.path(key).name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[3:])
    folder.write(b"large" * 8, model.state(4_096))
    assert not folder.step(), "one that could never fit is not written"


def test_a_full_disk_costs_one_line_and_no_reply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = store(tmp_path)
    kept.add(ids(200), RealModel().state(64))

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with caplog.at_level(logging.WARNING):
        kept.flush()
    (record,) = caplog.records
    assert "No space left" in record.getMessage()
    assert list(tmp_path.iterdir()) == []
    assert kept.find(ids(200)) is not None


def test_what_a_killed_server_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, fresh = tmp_path / "a.part", tmp_path / "b.part"
    for path in (old, fresh):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 7_200,) * 2)
    store(tmp_path).load(1 << 30)
    assert list(tmp_path.iterdir()) == [fresh]


def test_memory_holds_one_copy_and_is_free_after(tmp_path: Path) -> None:
    """Bytes in the ledger are the bytes that MLX holds, before, while and after a copy is written."""
    model = RealModel()
    before = mx.get_active_memory()
    kept = store(tmp_path)
    kept.add(ids(4_200), model.state(4_096))
    peak = kept.nbytes()
    while kept.idle():
        assert mx.get_active_memory() - before <= peak + 4_096
    assert mx.get_active_memory() - before <= peak + 4_096
    kept.trim(0, None)
    assert mx.get_active_memory() - before <= 4_096
    again = store(tmp_path)
    again.load(1 << 30)
    assert again.nbytes() == peak
    assert 0 <= mx.get_active_memory() - before - peak <= 4_096

"""A folder is made once, whole, or not at all."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tf_demo import cache


class Filler:
    """Writes two files, and counts how often it was asked to."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.calls, self.between = 0, between

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "one").write_bytes(b"1" * 1000)
        self.between()
        (folder / "two").write_bytes(b"2" * 1000)


def quiet(doing: str, share: float) -> None:
    pass


def test_a_second_call_makes_nothing(tmp_path: Path) -> None:
    fill = Filler()
    folders = {cache.build_once(tmp_path / "cache" / "made", fill, quiet) for _ in range(3)}
    assert folders == {tmp_path / "cache" / "made"}
    assert fill.calls == 1


def test_an_error_in_the_middle_leaves_no_folder(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        cache.build_once(tmp_path / "made", Filler(fail), quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]
    assert not (tmp_path / "made").exists()
    assert cache.complete(cache.build_once(tmp_path / "made", Filler(), quiet))


def test_a_kill_in_the_middle_leaves_no_folder(tmp_path: Path) -> None:
    script = """if True:
        import os, signal, sys
        from pathlib import Path
        from tf_demo import cache

        def fill(folder):
            (folder / "one").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        cache.build_once(Path(sys.argv[1]), fill, print)
    """
    killed = subprocess.run([sys.executable, "-c", script, tmp_path / "made"], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "made").exists()
    folder = cache.build_once(tmp_path / "made", Filler(), quiet)
    assert (folder / "one").stat().st_size == 1000
    assert not (tmp_path / "made.partial").exists()


@pytest.mark.parametrize("damage", ["cut", "lost", "no manifest", "bad manifest"])
def test_a_damaged_folder_is_made_again(tmp_path: Path, damage: str) -> None:
    fill = Filler()
    folder = cache.build_once(tmp_path / "made", fill, quiet)
    match damage:
        case "cut":
            (folder / "two").write_bytes(b"2" * 999)
        case "lost":
            (folder / "two").unlink()
        case "no manifest":
            (folder / cache.MANIFEST).unlink()
        case "bad manifest":
            (folder / cache.MANIFEST).write_text("{")
    assert not cache.complete(folder)
    assert cache.complete(cache.build_once(folder, fill, quiet))
    assert fill.calls == 2


def test_who_comes_second_waits_and_makes_nothing(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()
    told: list[str] = []

    def hold() -> None:
        inside.set()
        go_on.wait(10)

    def tell(doing: str, share: float) -> None:
        told.append(doing)
        go_on.set()

    first, second = Filler(hold), Filler()
    maker = threading.Thread(target=cache.build_once, args=(tmp_path / "made", first, quiet))
    maker.start()
    assert inside.wait(10)
    cache.build_once(tmp_path / "made", second, tell)
    maker.join()
    assert (first.calls, second.calls) == (1, 0)
    assert told == ["waiting for another process to make made"]

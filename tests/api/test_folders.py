"""Where made files are kept."""

from pathlib import Path

import pytest

from tf_plugins.folders import cache_folder, write_whole


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"TF_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/tf-plugins"),
        ({"TF_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/tf-plugins"),
        ({"TF_CACHE_DIR": "~/d", "HOME": "/c"}, "/c/d"),
    ],
)
def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str) -> None:
    for name in ("TF_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_a_file_is_written_in_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_whole(path, "one")
    write_whole(path, "zwei ✓")
    assert path.read_text("utf-8") == "zwei ✓"
    (tmp_path / "taken" / "path").mkdir(parents=True)
    with pytest.raises(OSError, match="irectory"):
        write_whole(tmp_path / "taken" / "path", "three")
    with pytest.raises(UnicodeError):
        write_whole(path, "\udc80")
    assert path.read_text("utf-8") == "zwei ✓"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["file"]

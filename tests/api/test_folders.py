"""Where made files are kept."""

from pathlib import Path

import pytest

from tf_plugins.folders import cache_folder


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

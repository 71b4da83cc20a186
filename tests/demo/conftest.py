"""The demo pair, converted once a session into a folder of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tf_demo import pair


@dataclass(frozen=True)
class DemoPair:
    target: Path
    drafter: Path
    told: list[tuple[str, float]]  # what the progress callback heard


@pytest.fixture(scope="session")
def demo_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPair]:
    """Both folders; nothing may write to them."""
    told: list[tuple[str, float]] = []

    def tell(doing: str, share: float) -> None:
        told.append((doing, share))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        drafter = pair.drafter(tell)
        yield DemoPair(pair.target(tell), drafter, told)

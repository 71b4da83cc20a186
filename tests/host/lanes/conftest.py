"""Every test here fails when a fake proposer was called against its contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.proposers import VIOLATIONS


@pytest.fixture(autouse=True)
def _proposers_are_called_as_documented() -> Iterator[None]:
    VIOLATIONS.clear()
    yield
    assert VIOLATIONS == []

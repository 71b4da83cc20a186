"""Settings tests see no variable of the machine they run on."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TF_"):
            monkeypatch.delenv(name)

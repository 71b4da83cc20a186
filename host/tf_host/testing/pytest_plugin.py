"""The pytest plugin: one fixture, and nothing imported or done until a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tf_plugins.testing.engine import Engine


@pytest.fixture
def tf_engine() -> Engine:
    """Starts servers of the fake model; see ``tf_plugins.testing.Engine``."""
    from tf_host.testing.server import fake_server

    return fake_server

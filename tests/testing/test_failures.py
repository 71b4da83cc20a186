"""The kit's engine shows the failures that the host counts, and the kit goes by those, not by what is logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.testing.good import EchoPlugin
from tests.testing.proposers import proposing, raises
from tf_plugins.testing import Engine, ProposerChecks

METHODS = ("propose", "observe", "close", "release")


@pytest.mark.parametrize("method", METHODS)
def test_a_failure_that_is_not_logged_is_caught(
    method: str, tf_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class Checks(ProposerChecks):
        plugin = failing(method)

    caplog.set_level(logging.CRITICAL, "tf_host")
    with pytest.raises(AssertionError, match=f"without the proposer: echo: {method}: ValueError: planted"):
        Checks().test_replies_are_the_plain_ones(0.0, tf_engine)
    assert not caplog.records


def test_what_fails_at_the_end_is_read_after_it(tf_engine: Engine) -> None:
    with tf_engine(failing("release")) as server:
        server.reply("the cat, the cat, the")
        assert server.failures == {}
    assert server.failures == {"echo": "release: ValueError: planted"}


def test_a_proposer_without_failures_is_not_named(tf_engine: Engine) -> None:
    with tf_engine(EchoPlugin) as server:
        server.reply("the cat, the cat, the")
    assert server.failures == {}


def failing(method: str) -> Any:
    """The good proposer, one method of which raises."""
    return proposing("Fails", **{method: raises})

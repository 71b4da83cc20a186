"""What a log at its most talkative holds of a request and its reply."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.host.http.conftest import World
from tf_host.cli.logs import log_to_stderr


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Loggers get their levels back."""
    known = [logging.getLogger(name) for name in [*logging.root.manager.loggerDict, "sse_starlette"]]
    before = [(logger, logger.level) for logger in known]
    yield
    for logger, level in before:
        logger.setLevel(level)


def test_a_debug_log_of_a_streamed_reply_holds_none_of_its_text(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log_to_stderr("debug")
    logging.getLogger("tf_host").debug("a line of ours")
    world.says("parsimonious zebras")
    streamed = world.complete("an unusual prompt", stream=True, return_token_ids=True)
    assert "prompt_token_ids" in streamed.text
    assert world.chat("an unusual prompt", stream=True).status_code == 200
    assert "a line of ours" in caplog.text
    for word in ("token_ids", "choices", "data:", "parsimonious", "zebras", "unusual"):
        assert word not in caplog.text

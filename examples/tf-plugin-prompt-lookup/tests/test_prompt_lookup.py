"""The kit, and what is this plugin's own."""

from __future__ import annotations

import logging
from typing import ClassVar

import pytest
from tf_plugin_prompt_lookup.lookup import PromptIndex
from tf_plugin_prompt_lookup.plugin import PromptLookupPlugin

from tf_plugins.testing import Engine, ObserverChecks, ProposerChecks


class TestPromptLookup(ProposerChecks):
    plugin = PromptLookupPlugin


class TestWithSettings(ProposerChecks):
    plugin = PromptLookupPlugin
    settings: ClassVar = {"ngram": 2, "tokens": 15}


class TestLogLine(ObserverChecks):
    plugin = PromptLookupPlugin


def test_what_follows_in_the_prompt() -> None:
    index = PromptIndex([1, 2, 3, 4, 5, 1, 2, 3, 9], 3)
    assert index.after([7, 1, 2, 3], 2) == (9,)  # the newest place counts
    assert index.after([2, 3, 4], 3) == (5, 1, 2)
    assert index.after([3, 9], 3) == ()
    assert index.after([2, 3, 9], 3) == ()  # nothing follows the prompt's end


def test_a_kept_draft_and_its_log_line(tf_engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tf_plugin_prompt_lookup")
    with tf_engine(PromptLookupPlugin) as server:
        reply = server.reply("one two three four, one two three four, one two three")
    assert reply.kept["prompt-lookup"] > 0
    line = f"{reply.kept['prompt-lookup']} of {reply.drafted['prompt-lookup']} tokens looked up in the prompt were kept"
    assert line in caplog.text

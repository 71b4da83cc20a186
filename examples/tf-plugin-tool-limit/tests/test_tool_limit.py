"""The kit, and the rule."""

from __future__ import annotations

from typing import Any, ClassVar

from tf_plugin_tool_limit import ToolLimitPlugin, ToolLimitSettings

from tf_plugins.testing import RefusalChecks, request_facts
from tf_plugins.types import RequestFacts


def asking(count: int | None) -> RequestFacts:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    return request_facts(body=body if count is None else {**body, "tools": [tool] * count})


class TestToolLimit(RefusalChecks):
    plugin = ToolLimitPlugin
    settings: ClassVar = {"most": 2}
    refused = (asking(3), asking(40))
    served = (asking(None), asking(0), asking(2))


def test_the_refusal_names_both_numbers() -> None:
    refusal = ToolLimitPlugin(ToolLimitSettings()).refuse_request(asking(40))
    assert refusal is not None
    assert str(refusal).startswith("the request has 40 tools, and this server takes 16\nhint: ")
    assert refusal.param == "tools"

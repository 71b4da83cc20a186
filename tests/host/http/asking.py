"""Bodies sent as they are, and what an error has to be."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.host.http.conftest import World

WRITES_ALL = (
    "{{ tools | tojson }}{{ mood }}{# <tool_call>{{ tool_call.name }} #}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}"
    "{% if m.role == 'assistant' %}{{ m.reasoning_content }}{% endif %}{% endfor %}"
)
"""A template that names all that a message may hold."""


def wrong(answer: Any, param: str | None) -> dict[str, Any]:
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert param is None or param.split("[")[0].split(".")[0] in error["message"]
    assert len(error["message"]) < 300
    assert not re.search(r"Body|ResponseFormat|[a-z]Part", error["message"])  # names of our classes
    return error


def post(world: World, path: str, body: dict[str, Any]) -> Any:
    """NaN and the like go out as Python writes them."""
    return world.client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

"""Whatever the body, the answer is a reply or an error of the client's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.host.http.conftest import World
from tf_host.http.chat_body import ChatBody
from tf_host.http.completion_body import CompletionBody
from tf_host.http.fields import Body
from tf_host.http.tokens_body import DetokenizeBody, TokenizeBody
from tf_host.http.unserved import UNSERVED

ROUTES: dict[str, tuple[type[Body], dict[str, Any]]] = {
    "/v1/chat/completions": (ChatBody, {"messages": [{"role": "user", "content": "hi"}]}),
    "/v1/completions": (CompletionBody, {"prompt": "hi"}),
    "/tokenize": (TokenizeBody, {"prompt": "hi"}),
    "/detokenize": (DetokenizeBody, {"tokens": [5]}),
}
WORDS = st.sampled_from(
    ["", "user", "tool", "assistant", "system", "text", "json_object", "json_schema", "function", "none", "auto",
     "required", "type", "content", "role", "schema", "name", "<|im_end|>", "\x00", "🚀", "{}", "a" * 300]
)  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.integers(-3, 30)
    | st.floats()
    | WORDS
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=8
)


@pytest.mark.parametrize("route", ROUTES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_no_body_is_the_servers_fault(world: World, route: str, data: st.DataObject) -> None:
    kind, valid = ROUTES[route]
    names = st.sampled_from([*kind.model_fields, *UNSERVED, "unknown"])
    changes = data.draw(st.dictionaries(names, VALUES, max_size=4))
    body = valid | changes
    if data.draw(st.booleans()):
        body = {name: body[name] for name in body if name not in valid or data.draw(st.booleans())}
    content = json.dumps(body).encode()
    answer = world.client.post(route, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 404), (answer.text, body)
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
    elif "data: " in answer.text[:10]:
        assert answer.text.endswith("data: [DONE]\n\n")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_no_bytes_are_either(world: World, content: bytes) -> None:
    answer = world.client.post("/v1/completions", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400

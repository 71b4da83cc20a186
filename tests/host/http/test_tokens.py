from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.http.conftest import World
from tf_host.text import Text, load_text


def post(world: World, path: str, **body: Any) -> Any:
    return world.client.post(path, json=body)


def test_a_text_is_tokenized_as_completions_do(world: World, text: Text) -> None:
    answer = post(world, "/tokenize", prompt="hi <|im_end|>", return_token_strs=True).json()
    world.complete("hi <|im_end|>")
    assert answer["tokens"] == list(world.engine.requests[-1].prompt)
    assert answer["count"] == len(answer["tokens"])
    assert answer["max_model_len"] == 200
    assert "".join(answer["token_strs"]) == "hi <|im_end|>"
    assert post(world, "/tokenize", prompt="hi").json()["token_strs"] is None
    assert post(world, "/tokenize", prompt="").json()["tokens"] == []


def test_a_conversation_is_tokenized_as_chat_does(world: World) -> None:
    world.chat("hello <|im_end|>")
    answer = post(world, "/tokenize", messages=[{"role": "user", "content": "hello <|im_end|>"}])
    assert answer.json()["tokens"] == list(world.engine.requests[-1].prompt)


def test_a_conversation_with_tools_and_variables_is_too(make_world: Callable[..., World], tmp_path: Path) -> None:
    template = "{{ tools | tojson }}{{ mood }}{{ messages[0].content }}{% if add_generation_prompt %}A:{% endif %}"
    world = make_world(text=load_text(tiny_tokenizer.byte_level(tmp_path, template)))
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": tools, "chat_template_kwargs": {"mood": "good"}}
    answer = post(world, "/tokenize", **body).json()
    world.client.post("/v1/chat/completions", json=body)
    assert answer["tokens"] == list(world.engine.requests[-1].prompt)
    shown = world.served.text.decode(post(world, "/tokenize", add_generation_prompt=False, **body).json()["tokens"])
    assert shown.endswith("goodhi")
    assert world.served.text.decode(answer["tokens"]) == shown + "A:"


def test_tokens_become_text_again(world: World) -> None:
    tokens = post(world, "/tokenize", prompt="naïve 🚀 <|im_start|>").json()["tokens"]
    assert post(world, "/detokenize", tokens=tokens).json() == {
        "prompt": "naïve 🚀 <|im_start|>",
        "ignored": [],
    }
    assert post(world, "/detokenize", tokens=[]).json() == {"prompt": "", "ignored": []}


def test_fields_that_change_nothing_are_listed(world: World) -> None:
    assert post(world, "/tokenize", prompt="hi", foo=1, user=None).json()["ignored"] == ["foo"]
    assert post(world, "/detokenize", tokens=[5], foo=1).json()["ignored"] == ["foo"]
    body = {
        "messages": [{"role": "user", "name": "me", "content": [{"type": "text", "text": "hi", "foo": 1}]}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "chat_template_kwargs": {"mood": "good"},
        "add_special_tokens": False,
    }
    answer = post(world, "/tokenize", **body)
    assert answer.json()["ignored"] == [
        "chat_template_kwargs.mood",
        "messages[0].content[0].foo",
        "messages[0].name",
        "tools",
    ]


def test_what_is_missing_and_what_is_too_much_are_told_apart(world: World) -> None:
    def said(**body: Any) -> str:
        return str(post(world, "/tokenize", **body).json()["error"]["message"])

    messages = [{"role": "user", "content": "hi"}]
    assert said() == "'prompt' or 'messages' is missing; send one of them"
    assert said(prompt="a", messages=messages) == "'prompt' and 'messages' cannot be sent together; send one of them"
    assert said(messages=messages, add_special_tokens=True).startswith("'add_special_tokens' needs 'prompt'; ")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt"),
        ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
        (
            "/tokenize",
            {"messages": [{"role": "user", "content": "a"}], "add_special_tokens": True},
            "add_special_tokens",
        ),
        ("/tokenize", {"prompt": "a", "tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt"),
        ("/tokenize", {"prompt": "a", "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"),
        ("/tokenize", {"messages": [{"role": "x", "content": "a"}]}, "messages[0].role"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [True]}, "tokens"),
        ("/detokenize", {"tokens": [1 << 40]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
    ],
)
def test_wrong_fields_are_named(world: World, path: str, body: dict[str, Any], param: str) -> None:
    answer = world.client.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_another_model_is_404(world: World) -> None:
    assert post(world, "/tokenize", model="other", prompt="hi").status_code == 404
    assert post(world, "/detokenize", model="other", tokens=[5]).status_code == 404

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes import tiny_tokenizer
from tf_host.text import load_text
from tf_host.text.tools import ToolCall, ToolFormat, ToolSplit, _llama3_calls

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("weather", "time")]
HERMES = ToolFormat("json_tools", "<tool_call>", "</tool_call>", lambda text, _: json.loads(text), "arguments")
MISTRAL = ToolFormat("mistral", "[TOOL_CALLS]", "", lambda text, _: json.loads(text))
LLAMA = ToolFormat("llama3_json", "", "", _llama3_calls, "parameters", "; ")

PARIS = ToolCall("weather", '{"city": "Paris"}')
NOON = ToolCall("time", "{}")
P, N = '{"name": "weather", "arguments": {"city": "Paris"}}', '{"name": "time", "arguments": {}}'
LP = P.replace("arguments", "parameters")


def split(form: ToolFormat, text: str, size: int, *, complete: bool = True, most: int | None = None) -> list[object]:
    splitter = ToolSplit(form, TOOLS, most)
    parts: list[object] = []
    for at in range(0, len(text), size):
        parts += splitter.feed(text[at : at + size])
    parts += splitter.flush(complete=complete)
    content = "".join(part for part in parts if isinstance(part, str))
    return ([content] if content else []) + [part for part in parts if isinstance(part, ToolCall)]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("form", "text", "parts"),
    [
        (HERMES, f"<tool_call>\n{P}\n</tool_call>", [PARIS]),
        (HERMES, f"Wait.\n<tool_call>{P}</tool_call>\n<tool_call>{N}</tool_call>\n", ["Wait.", PARIS, NOON]),
        (HERMES, f"\n\n<tool_call>{P}</tool_call>", [PARIS]),
        (HERMES, "no call at all ", ["no call at all "]),
        (HERMES, "  \n", ["  \n"]),
        (HERMES, "1 <tool 2", ["1 <tool 2"]),
        (HERMES, "<tool_call>not json</tool_call> sorry", ["<tool_call>not json</tool_call> sorry"]),
        (HERMES, "<tool_call>[]</tool_call>", ["<tool_call>[]</tool_call>"]),
        (HERMES, '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
         ['<tool_call>{"name": "x", "arguments": {}}</tool_call>']),
        (HERMES, '<tool_call>{"name": "time", "arguments": []}</tool_call>',
         ['<tool_call>{"name": "time", "arguments": []}</tool_call>']),
        (HERMES, '<tool_call>{"name": "time", "arguments": {"at": "\\ud83d"}}</tool_call>',  # no text can hold that
         ['<tool_call>{"name": "time", "arguments": {"at": "\\ud83d"}}</tool_call>']),
        (HERMES, f"<tool_call>{P}", [PARIS]),  # the model ended its reply without the mark
        (HERMES, '<tool_call>{"name": "wea', ['<tool_call>{"name": "wea']),
        (MISTRAL, f"[TOOL_CALLS][{P}, {N}]", [PARIS, NOON]),
        (MISTRAL, f"[TOOL_CALLS][{P}, ", [f"[TOOL_CALLS][{P}, "]),
        (LLAMA, LP, [PARIS]),
        (LLAMA, f" <|python_tag|>{LP}; {LP}", [PARIS, PARIS]),
        (LLAMA, "{curly} text", ["{curly} text"]),
        (LLAMA, f"{LP} and text", [f"{LP} and text"]),
        (LLAMA, f"text {LP}", [f"text {LP}"]),
        (LLAMA, "<|py", ["<|py"]),
    ],
)  # fmt: skip
def test_calls_are_taken_out(form: ToolFormat, text: str, parts: list[object], size: int) -> None:
    assert split(form, text, size) == parts


@pytest.mark.parametrize("form", [HERMES, MISTRAL, LLAMA])
def test_a_call_that_was_cut_off_is_content(form: ToolFormat) -> None:
    text = f"{form.start}{LP if form is LLAMA else P}"
    assert split(form, text, 4, complete=False) == [text]


def test_one_call_where_calls_may_not_be_parallel() -> None:
    text = f"<tool_call>{P}</tool_call><tool_call>{N}</tool_call>"
    assert split(HERMES, text, 5, most=1) == [PARIS]


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (tiny_tokenizer.CHATML, None),
        ("{{ tools }}<tool_call>{{ tool_call.name }}", "json_tools"),
        ("{{ tools }}[TOOL_CALLS]", "mistral"),
        ('{{ tools }}{"name": function name, "parameters": dictionary of argument name and its value}', "llama3_json"),
        ("{{ tools }} in a way of its own", None),
    ],
)
def test_the_format_comes_from_the_template(tmp_path: Path, template: str, name: str | None) -> None:
    form = load_text(tiny_tokenizer.byte_level(tmp_path, template=template)).tools
    assert (form.name if form else None) == name


LLAMA_SINGLE = (
    '{{ tools }}{"name": function name, "parameters": dictionary of argument name and its value}'
    "{% for m in messages if 'tool_calls' in m %}"
    "{% if m.tool_calls | length != 1 %}{{ raise_exception('single tool-calls only') }}{% endif %}"
    "{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}"
)
CALLS = "{% for m in messages %}{% for call in m.tool_calls or [] %}{{ call.function }}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "single"),
    [
        (LLAMA_SINGLE, True),
        (LLAMA_SINGLE.replace("raise_exception('single tool-calls only')", "''"), True),  # leaves the second one out
        ("{{ tools }}<tool_call>{{ tool_call.name }}" + CALLS, False),
        ("{{ tools }}[TOOL_CALLS]{{ raise_exception('no sample is good enough') }}", False),
    ],
)
def test_how_many_calls_a_message_holds_comes_from_the_template(tmp_path: Path, template: str, single: bool) -> None:
    form = load_text(tiny_tokenizer.byte_level(tmp_path, template=template)).tools
    assert form is not None
    assert form.single == single

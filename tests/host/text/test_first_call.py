"""A reply of one call ends where a second one would begin, wherever its text is cut."""

from __future__ import annotations

import pytest

from tests.fakes import tiny_tokenizer
from tests.host.text.test_tools import HERMES, LLAMA, LP, MISTRAL, TOOLS, N, P
from tf_host.text import Text, ToolFormat, load_text
from tf_host.text.first_call import FirstCall

CALL = f"<tool_call>{P}</tool_call>"
TRICKY = LP.replace("Paris", r"\"}}; \"a\\")


def follow(form: ToolFormat, text: str, size: int) -> tuple[str, bool]:
    call, safe = FirstCall(form, TOOLS), ""
    for at in range(0, len(text), size):
        piece, ended = call.feed(text[at : at + size])
        safe += piece
        if ended:
            return safe, True
    return safe + call.flush(), False


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("form", "text", "rest"),
    [
        (HERMES, f"Wait. {CALL}\n", f"<tool_call>{N}</tool_call>"),
        (HERMES, f"{CALL} and then ", "<tool_call>broken"),
        (HERMES, f"<tool_call>broken</tool_call>{CALL}", CALL),
        (LLAMA, LP, f"; {LP}"),
        (LLAMA, f" <|python_tag|>{LP} \n", f";{LP}"),
        (LLAMA, TRICKY, f"; {LP}"),
    ],
)
def test_a_second_call_does_not_begin(form: ToolFormat, text: str, rest: str, size: int) -> None:
    assert follow(form, text + rest, size) == (text, True)
    assert follow(form, text, size) == (text, False)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("form", "text"),
    [
        (HERMES, f"{CALL} 1 <tool"),
        (HERMES, "<tool_call>broken</tool_call><tool_call>too</tool_call>"),
        (MISTRAL, f"[TOOL_CALLS][{P}, {N}][TOOL_CALLS]"),  # the mark is inside the first one
        (LLAMA, f"{LP} and text; {LP}"),
        (LLAMA, LP.replace("weather", "unknown") + f"; {LP}"),
        (LLAMA, f"text {LP}; {LP}"),
        (LLAMA, f'}} " {{ {LP}; {LP}'),
        (LLAMA, "{};" * 9),
    ],
)
def test_what_is_no_call_ends_nothing(form: ToolFormat, text: str, size: int) -> None:
    assert follow(form, text, size) == (text, False)


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Text:
    template = "{{ tools }}<tool_call>{{ tool_call.name }}"
    return load_text(tiny_tokenizer.byte_level(tmp_path_factory.mktemp("hermes"), template))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"{CALL} <toolSTOP x", f"{CALL} <tool"),  # what was held for the mark is let out at a stop string
        (f"{CALL} <tool ST", f"{CALL} <tool ST"),  # and at the reply's end
        (f"{CALL} {CALL}", f"{CALL} "),
        (f"STOP {CALL}", ""),
    ],
)
def test_it_goes_with_stop_strings(hermes: Text, text: str, read: str) -> None:
    reader, seen = hermes.reader(["STOP"], one_call_of=TOOLS)(), ""
    for token in hermes.encode(text, special=False):
        piece, ended = reader.feed(token)
        seen += piece
        if ended:
            break
    else:
        seen += reader.finish()
    assert seen == read

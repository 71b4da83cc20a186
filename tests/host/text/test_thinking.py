from __future__ import annotations

import pytest

from tf_host.text import ThinkingMarks, ThinkingSplit
from tf_host.text.reader import ReplyReader
from tf_host.text.stops import StopStrings

MARKS = ThinkingMarks("<think>", "</think>", (6,), (7,))


def split(text: str, *, opened: bool, size: int) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    splitter = ThinkingSplit(MARKS, "open" if opened else "start")
    for at in range(0, len(text), size):
        parts += splitter.feed(text[at : at + size])
    parts += splitter.flush()
    assert "".join(part for _, part in parts) == text
    joined: dict[str, str] = {}
    for kind, part in parts:
        joined[kind] = joined.get(kind, "") + part
    return sorted(joined.items())


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "opened", "parts"),
    [
        ("hm</think>yes", True, {"reasoning": "hm", "mark": "</think>", "answer": "yes"}),
        ("hm < </thin", True, {"reasoning": "hm < </thin"}),
        ("\n<think>hm</think>\n\nyes", False, {"mark": "\n<think></think>", "reasoning": "hm", "answer": "\n\nyes"}),
        ("no <think>hm</think>", False, {"answer": "no <think>hm</think>"}),
        ("<thin", False, {"answer": "<thin"}),
        ("</think></think>", True, {"mark": "</think>", "answer": "</think>"}),
        ("", True, {}),
    ],
)
def test_split(text: str, opened: bool, parts: dict[str, str], size: int) -> None:
    assert split(text, opened=opened, size=size) == sorted(parts.items())


class Letters:
    """Each token is a character."""

    def add(self, token: int) -> str:
        return chr(token)

    def flush(self) -> str:
        return ""


def test_stop_strings_wait_for_the_end_of_the_reasoning() -> None:
    reader = ReplyReader(Letters(), StopStrings(["STOP"]), frozenset(), ThinkingSplit(MARKS, "open"))
    seen = ""
    left = list("a STOP b</think>c STOP d")
    stopped = False
    while not stopped:
        text, stopped = reader.feed(ord(left.pop(0)))
        seen += text
    assert seen == "a STOP b</think>c "
    assert left == [" ", "d"]


def test_stop_strings_apply_at_once_where_nothing_was_thought() -> None:
    reader = ReplyReader(Letters(), StopStrings(["STOP"]), frozenset(), ThinkingSplit(MARKS, "start"))
    assert [reader.feed(ord(char))[1] for char in "a STOP"][-1]


@pytest.mark.parametrize(("stop", "seen"), [("<", ""), ("in", "<th"), ("nk", "<thin")])
def test_a_stop_string_in_what_might_have_been_a_mark(stop: str, seen: str) -> None:
    reader = ReplyReader(Letters(), StopStrings([stop]), frozenset(), ThinkingSplit(MARKS, "start"))
    assert "".join(reader.feed(ord(char))[0] for char in "<thin") + reader.finish() == seen

"""A reply's text does not depend on where its tokens are cut."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tf_host.text import ReplyReader, Text

KINDS = ["byte level", "byte fallback", "byte fallback, no strip", "word piece"]
TEXT = "naïve café — 東京 🚀 👩‍👩‍👧 the quick brown fox"
reuse = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def read(reader: ReplyReader, ids: list[int]) -> tuple[list[str], int | None]:
    """Pieces of text as they are let out, and the index of the token that stopped the reply."""
    pieces = []
    for at, token in enumerate(ids):
        text, stopped = reader.feed(token)
        pieces.append(text)
        if stopped:
            return pieces, at
    return [*pieces, reader.finish()], None


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_what_the_tokenizer_decodes(kinds: dict[str, Text], kind: str) -> None:
    text = kinds[kind]
    ids = text.encode("the quick brown fox" if kind == "word piece" else TEXT, special=False)
    pieces, _ = read(text.reader()(), ids)
    assert "".join(pieces) == text.decode(ids)
    assert len([piece for piece in pieces if piece]) > 3  # streamed, not kept for the end


@reuse
@given(data=st.data())
def test_any_bytes_decode_as_the_tokenizer_does(kinds: dict[str, Text], data: st.DataObject) -> None:
    text = kinds["byte level"]
    ids = data.draw(st.lists(st.integers(3, text.vocab - 1), max_size=40))
    pieces, _ = read(text.reader()(), ids)
    assert "".join(pieces) == text.decode(ids)


@pytest.mark.parametrize("whole", ["", "a", TEXT * 3, "the " * 500, "<|im_start|>" * 9, "   " * 100])
def test_a_text_has_no_fewer_tokens_than_said(kinds: dict[str, Text], whole: str) -> None:
    for text in kinds.values():
        assert text.least_tokens(whole) <= len(text.encode(whole))
    assert kinds["byte level"].least_tokens("the " * 500) > 50


def test_a_character_is_let_out_whole(chatml: Text) -> None:
    ids = chatml.encode("a🚀b", special=False)
    assert len(ids) > 3
    pieces, _ = read(chatml.reader()(), ids)
    assert "".join(pieces) == "a🚀b"
    assert all("\ufffd" not in piece for piece in pieces)


def test_a_cut_character_is_let_out_at_the_end(chatml: Text) -> None:
    ids = chatml.encode("a🚀", special=False)[:-1]
    pieces, _ = read(chatml.reader()(), ids)
    assert "".join(pieces) == "a\ufffd"


def test_end_and_control_tokens_have_no_text(chatml: Text) -> None:
    ids = [*chatml.encode("hello", special=False), *sorted(chatml.end_ids), 1]
    pieces, _ = read(chatml.reader()(), ids)
    assert "".join(pieces) == "hello"


def test_a_reply_keeps_its_first_space_where_it_continues_a_text(kinds: dict[str, Text]) -> None:
    text = kinds["byte fallback"]
    ids = text.encode("the fox", special=False)
    assert "".join(read(text.reader(strip=True)(), ids)[0]) == "the fox"
    assert "".join(read(text.reader(strip=False)(), ids)[0]) == " the fox"
    assert "".join(read(kinds["byte level"].reader()(), kinds["byte level"].encode(" fox", special=False))[0]) == " fox"


@pytest.mark.parametrize("stop", ["quick", "the", "🚀", " ", "k b", "the quick brown fo"])
def test_text_is_cut_before_a_stop_string(chatml: Text, stop: str) -> None:
    whole = "the quick brown fox 🚀 jumps"
    ids = chatml.encode(whole, special=False)
    pieces, at = read(chatml.reader([stop])(), ids)
    assert at is not None
    assert "".join(pieces) == whole[: whole.index(stop)]
    assert stop in chatml.decode(ids[: at + 1])
    assert stop not in chatml.decode(ids[:at])


def test_nothing_of_a_stop_string_is_let_out_early(chatml: Text) -> None:
    ids = [token for char in "one two THE END" for token in chatml.encode(char, special=False)]
    pieces, at = read(chatml.reader(["THE END"])(), ids)
    assert at == len(ids) - 1
    seen = ""
    for piece in pieces:
        seen += piece
        assert "one two ".startswith(seen)


def test_text_held_back_for_a_stop_string_comes_out_when_it_is_not_one(chatml: Text) -> None:
    ids = chatml.encode("so THE EN", special=False)
    pieces, at = read(chatml.reader(["THE END"])(), ids)
    assert at is None
    assert "".join(pieces) == "so THE EN"
    assert pieces[-1] == "THE EN"


@reuse
@given(
    whole=st.text(alphabet="abc", max_size=30),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=5), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_the_stop_string_that_ends_first_wins_wherever_tokens_are_cut(
    whole: str, stops: list[str], cuts: list[int]
) -> None:
    from tf_host.text.stops import StopStrings

    ends = [(end, min(whole[:end].rfind(stop, 0, end) for stop in stops if whole[:end].endswith(stop)))
            for end in range(len(whole) + 1)
            if any(whole[:end].endswith(stop) for stop in stops)]  # fmt: skip
    matcher, out, at, stopped = StopStrings(stops), "", 0, False
    for cut in cuts:
        text, stopped = matcher.feed(whole[at : at + cut])
        out, at = out + text, at + cut
        if stopped:
            break
    if not ends:
        assert not stopped
        assert out + matcher.flush() == whole
    else:
        assert stopped
        assert out == whole[: ends[0][1]]


def test_work_for_a_token_does_not_grow_with_the_reply(chatml: Text) -> None:
    half = chatml.encode("🚀", special=False)[:1]  # an undecodable run, where others scan again from its start
    reader = chatml.reader(["never " * 20])()

    def feed(count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            reader.feed(half[0])
        return time.perf_counter() - begun

    feed(1_000)
    early = min(feed(2_000) for _ in range(3))
    feed(60_000)
    late = min(feed(2_000) for _ in range(3))
    assert late < 4 * early

"""The suffix lookup against an oracle that looks at every earlier place."""

from __future__ import annotations

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from tf_copy.lookup import CANDIDATES, EXTENT, NGRAM, SuffixLookup


def oracle(tokens: list[int]) -> tuple[int, int]:
    """Longest match of the last tokens with an earlier end, the newest of equals, of the newest candidates."""
    end = len(tokens)
    places = [p for p in range(NGRAM, end) if tokens[p - NGRAM : p] == tokens[end - NGRAM :]]
    best = (0, 0)
    for place in reversed(places[-CANDIDATES:]):
        length = 0
        while length < min(place, EXTENT) and tokens[place - 1 - length] == tokens[end - 1 - length]:
            length += 1
        if length > best[0]:
            best = (length, place)
    return best


# Few ids, so that matches are common; blocks repeated, so that long ones are too.
BLOCK = st.lists(st.integers(0, 2), min_size=1, max_size=90)
TEXT = st.lists(BLOCK, min_size=1, max_size=4).flatmap(
    lambda blocks: st.lists(st.sampled_from(blocks), min_size=1, max_size=6).map(lambda some: list(chain(*some)))
)


@settings(max_examples=300, deadline=None)
@given(text=TEXT, steps=st.lists(st.integers(1, 17), min_size=1, max_size=200))
def test_longest_match_equals_the_oracle_however_the_context_arrives(text: list[int], steps: list[int]) -> None:
    lookup, read = SuffixLookup(), 0
    for step in steps:
        read = min(len(text), read + step)
        lookup.read(text[:read])
        assert lookup.longest() == oracle(text[:read])


@settings(max_examples=200, deadline=None)
@given(text=TEXT, most=st.integers(1, 15), end=st.integers(0, 3))
def test_copy_goes_on_as_the_text_would_if_it_repeated(text: list[int], most: int, end: int) -> None:
    lookup = SuffixLookup()
    lookup.read(text)
    _, place = lookup.longest()
    if not place:
        return
    said = list(text)
    for _ in range(most):
        said.append(said[place + len(said) - len(text)])
        if said[-1] == end:
            break
    assert lookup.copy(place, most, frozenset({end})) == said[len(text) :]


def test_longest_wins_over_newest() -> None:
    lookup = SuffixLookup()
    lookup.read([5, 1, 2, 3, 4, 70, 9, 2, 3, 4, 71, 8, 5, 1, 2, 3, 4])
    assert lookup.longest() == (5, 5)


def test_newest_wins_among_equals() -> None:
    lookup = SuffixLookup()
    lookup.read([6, 1, 2, 3, 70, 7, 1, 2, 3, 71, 8, 1, 2, 3])
    assert lookup.longest() == (3, 9)


def test_past_the_extent_all_matches_are_equal_and_the_newest_wins() -> None:
    block = list(range(100, 100 + EXTENT))
    text = [1, 2, *block, 3, *block, 1, 2, *block]
    lookup = SuffixLookup()
    lookup.read(text)
    assert lookup.longest() == (EXTENT, 2 + EXTENT + 1 + EXTENT)


def test_shorter_than_an_ngram_matches_nothing() -> None:
    for text in ([], [1], [1, 1], [1, 2], [0, 0]):
        lookup = SuffixLookup()
        lookup.read(text)
        assert lookup.longest() == (0, 0)


class Counted(list[int]):
    """A context that counts what is read of it."""

    taken = 0

    def __getitem__(self, key):  # type: ignore[no-untyped-def]
        got = super().__getitem__(key)
        self.taken += len(got) if isinstance(key, slice) else 1
        return got


def test_only_new_tokens_are_read() -> None:
    lookup = SuffixLookup()
    context = Counted(range(10_000))
    lookup.read(context)
    context.taken = 0
    context.extend([1, 2, 3])
    lookup.read(context)
    assert context.taken == 3


def test_a_call_looks_at_a_bounded_number_of_places() -> None:
    lookup = SuffixLookup()
    # One trigram everywhere, each time after another token: no match ever grows past three.
    lookup.read([token for n in range(5_000) for token in (100 + n, 1, 2, 3)])
    walked = 0

    class Walked(list[int]):
        def __getitem__(self, key):  # type: ignore[no-untyped-def]
            nonlocal walked
            walked += 1
            return super().__getitem__(key)

    lookup._older = Walked(lookup._older)
    assert lookup.longest()[0] == 3
    assert walked <= CANDIDATES

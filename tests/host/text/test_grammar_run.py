"""Limits of llguidance: a reply meets those that it meets without drafts, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.host.text.test_grammar import compiled
from tf_host.text import Constraint, Text
from tf_plugins import Refused


def test_a_draft_past_a_limit_costs_no_reply(text: Text) -> None:
    wanted = Constraint("regex", "(c{1,5}b?|c{0,5}ba{1000000})", "field")
    a, b, c = (text.encode(letter, special=False)[0] for letter in "abc")
    plain, drafted = text.grammars.compile(wanted), text.grammars.compile(wanted)
    with pytest.raises(Refused, match="'field' is too complex to follow"):
        text.grammars.compile(wanted).commit((b, a))
    drafted._ahead.mask()  # one way to the limit, and where both share a matcher a way for the reply as well
    with pytest.raises(Refused, match="is too complex"):
        [drafted.mask((b, a, a)[:rows]) for rows in range(4)]
    for _ in range(5):
        assert np.array_equal(plain.mask(()), drafted.mask(()))
        assert (drafted.allowed_prefix((c,)), drafted.forced()) == (0, ())
        plain.commit((c,))
        drafted.commit((c,))
    end = min(text.end_ids)
    for run in (plain, drafted):
        run.commit((end,))
        assert np.flatnonzero(run.mask(())).tolist() == sorted(text.end_ids)


def test_tokens_that_land_together_meet_the_limits_of_those_that_land_one_by_one(text: Text) -> None:
    looked: list[int] = []

    class Counting:
        """A matcher that says where a mask was computed."""

        def __init__(self, matcher: Any) -> None:
            self._matcher, self._at = matcher, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._matcher, name)

        def consume_token(self, token: int) -> None:
            self._at += 1
            self._matcher.consume_token(token)

        def compute_bitmask(self) -> bytes:
            looked.append(self._at)
            return self._matcher.compute_bitmask()

    run = compiled(text, "regex", "abcabcabc")
    run._own._matcher = Counting(run._own._matcher)
    ids = tuple(text.encode(letter, special=False)[0] for letter in "abcabcabc")
    for begin in range(0, 9, 3):
        run.mask(())
        run.commit(ids[begin : begin + 3])
    assert looked == list(range(9))

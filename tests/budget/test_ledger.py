"""The ledger: never over, never negative, and all or nothing."""

from __future__ import annotations

import pytest

from tf_llama.budget.ledger import DRAFTERS, KEPT, STREAMS, Ledger, LedgerError


def test_takes_up_to_the_budget_and_not_a_byte_more() -> None:
    ledger = Ledger(10, {KEPT: lambda: 3})
    ledger.take({STREAMS: 7})
    assert ledger.room() == 0
    with pytest.raises(LedgerError, match="does not fit"):
        ledger.take({STREAMS: 1})
    assert ledger.used() == {STREAMS: 7, KEPT: 3}


def test_a_booking_that_does_not_fit_books_none_of_its_kinds() -> None:
    ledger = Ledger(10, {})
    with pytest.raises(LedgerError):
        ledger.take({STREAMS: 6, DRAFTERS: 5})
    assert ledger.taken() == 0


def test_gives_back_only_what_was_taken() -> None:
    ledger = Ledger(10, {})
    ledger.take({STREAMS: 4, DRAFTERS: 2})
    with pytest.raises(LedgerError, match="given back"):
        ledger.give({STREAMS: 4, DRAFTERS: 3})
    assert ledger.used() == {STREAMS: 4, DRAFTERS: 2}
    ledger.give({STREAMS: 4, DRAFTERS: 2})
    assert ledger.total() == 0


@pytest.mark.parametrize("wrong", ["take", "give"])
def test_less_than_nothing_is_no_booking(wrong: str) -> None:
    ledger = Ledger(10, {})
    with pytest.raises(LedgerError):
        getattr(ledger, wrong)({STREAMS: -1})


def test_what_owners_count_is_read_afresh() -> None:
    kept = [2]
    ledger = Ledger(10, {KEPT: lambda: kept[0]})
    assert ledger.room() == 8
    kept[0] = 9
    assert ledger.room() == 1
    with pytest.raises(LedgerError):
        ledger.take({STREAMS: 2})

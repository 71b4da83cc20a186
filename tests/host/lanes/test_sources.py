"""What is remembered and logged of a proposer that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes.lanes import decode, make_lanes, naive, request
from tests.fakes.model import VOCAB
from tests.fakes.proposers import Answer, FakeProposer, always
from tf_host.lanes.faults import Failures
from tf_host.lanes.sources import Source
from tf_plugins.types import Draft, DraftRequest, Outcome

ASKED = DraftRequest(stream=1, context=[1, 2], most=4, seed=0, temperature=0.0, position=2)

CALLS: dict[str, Callable[[Source], object]] = {
    "growth": lambda source: source.growth([1], 10),
    "open": lambda source: source.open(1, [1], 10),
    "unread": lambda source: source.unread(1, 2),
    "propose": lambda source: source.propose([ASKED]),
    "observe": lambda source: source.observe([Outcome(1, 2, 1)]),
    "close": lambda source: source.close(1),
}


def opened(answer: Answer, *streams: int, name: str = "fake") -> tuple[Source, FakeProposer]:
    proposer = FakeProposer(answer, name)
    source = Source(0, proposer, VOCAB)
    for stream in streams:
        source.open(stream, [1], 10)
    return source, proposer


@pytest.mark.parametrize("method", CALLS)
def test_a_failure_is_counted_with_its_method_and_cause(method: str) -> None:
    source, proposer = opened(always(1), *(() if method == "open" else (1,)))
    assert source.failures == Failures(0, "")
    proposer.raises = method
    CALLS[method](source)
    assert source.failures == Failures(1, f"{method}: RuntimeError: planted in {method}")


def test_every_bad_draft_is_counted_and_its_stream_is_asked_again() -> None:
    source, _ = opened(always(VOCAB), 1, 2)
    for _ in range(3):
        assert source.propose([ASKED, replace(ASKED, stream=2)]) == [Draft(()), Draft(())]
    assert source.failures == Failures(6, f"a draft was dropped: id {VOCAB} of {VOCAB}")
    assert source.serves(1)


@pytest.mark.parametrize("method", ["growth", "unread", "propose"])
@pytest.mark.parametrize("answer", ["rubbish", None, 0.5])
def test_an_answer_of_another_type_is_a_failure(method: str, answer: object, caplog: pytest.LogCaptureFixture) -> None:
    wanted = request([3, 1, 2], 10)
    proposer = FakeProposer(always(1))
    setattr(proposer, method, lambda *_: answer)
    [sink] = decode(make_lanes(proposers=[proposer], depth=4), wanted)
    assert sink.tokens == naive(wanted)[0]
    assert f"'fake' failed in {method}" in caplog.text


def test_a_proposer_that_fails_every_round_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    source, proposer = opened(always(VOCAB), 1)
    for _ in range(50):
        source.propose([ASKED])
    proposer.raises = "growth"
    for _ in range(50):
        source.growth([1], 10)
    dropped, grown = f"a draft was dropped: id {VOCAB} of {VOCAB}", "growth: RuntimeError: planted in growth"
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"proposer 'fake': {dropped}",
        *(f"proposer 'fake' failed {n} times so far, the last time: {dropped}" for n in (2, 4, 8, 16, 32)),
        "proposer 'fake' failed in growth",
        f"proposer 'fake' failed 64 times so far, the last time: {grown}",
    ]
    assert source.failures == Failures(100, grown)


def test_the_first_failure_is_logged_in_full_for_each_proposer(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("one", "other"):
        source, proposer = opened(always(1), name=name)
        proposer.raises = "growth"
        for _ in range(3):
            source.growth([1], 10)
    full = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(full) == 2
    for name, text in zip(("one", "other"), full, strict=True):
        assert text.startswith(f"proposer {name!r} failed in growth; its streams go on without its drafts\nTraceback")
        assert text.endswith("RuntimeError: planted in growth")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("planted")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("two\nlines, \x1b[31mred\u2028é"), r"ValueError: two\nlines, \x1b[31mred\u2028\xe9"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 180 + "..."),
        (ValueError("\U0001f600" * 10_000), "ValueError: " + r"\U0001f600" * 18 + "..."),
        (Mute(), f"{__name__}.Mute: <exception str() failed>"),
    ],
    ids=["control characters", "long", "long when escaped", "no message"],
)
def test_a_cause_is_one_short_line_whatever_was_raised(error: Exception, said: str) -> None:
    source, proposer = opened(always(1))

    def growth(*_: object) -> None:
        raise error

    proposer.growth = growth  # type: ignore[assignment, method-assign]
    source.growth([1], 10)
    assert source.failures.last == f"growth: {said}"
    assert len(source.failures.last) <= 203


def test_lanes_show_the_proposers_that_failed_and_no_others() -> None:
    proposers = [FakeProposer(always(VOCAB), "bad"), FakeProposer(always(1), "good")]
    lanes = make_lanes(proposers=proposers, depth=4)
    assert lanes.snapshot().failures == {}
    [sink] = decode(lanes, request([3, 1, 2], 10))
    failures = lanes.snapshot().failures
    assert failures.keys() == {"bad"}
    assert failures["bad"].count >= sink.done.rounds - 2  # the last rounds have no room for a draft
    assert failures["bad"].last == f"a draft was dropped: id {VOCAB} of {VOCAB}"

"""The kit hands in contexts as the host does, so that what works in a check works in a server."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest

from tests.testing.good import Echo, EchoPlugin
from tests.testing.proposers import drafting, proposing
from tf_plugins.testing import Engine, ProposerChecks, target_facts
from tf_plugins.tokens import Tokens
from tf_plugins.types import Draft, DraftRequest, TargetFacts


def test_the_view_is_a_sequence_and_no_list() -> None:
    view = Tokens([1, 2, 3])
    assert (view[1:], list(view), len(view), 2 in view) == ([2, 3], [1, 2, 3], 3, True)
    assert view != [1, 2, 3]
    assert not {"__add__", "append", "copy"} & set(dir(view))


def adds_to_a_list(self: Echo, request: DraftRequest) -> Draft | None:
    context = operator.add(request.context, [0])[:-1]
    return Draft(tuple(context[-2:])) if context else None


def compares_with_a_list(self: Echo, request: DraftRequest) -> Draft | None:
    return Draft((97,)) if request.context == list(request.context) else None


def asks_for_a_tuple(self: Echo, context: Sequence[int], tokens: int) -> Any:
    return Echo.growth(self, operator.add(context, (0,)), tokens)


@pytest.mark.parametrize(
    ("check", "plugin"),
    [
        ("test_it_drafts", proposing("Adds", propose=drafting(adds_to_a_list))),
        ("test_it_drafts", proposing("Compares", propose=drafting(compares_with_a_list))),
        ("test_growth_is_arithmetic", proposing("Tuples", growth=asks_for_a_tuple)),
    ],
    ids=["adds to it", "compares it", "adds a tuple"],
)
def test_what_only_lists_and_tuples_can_is_caught(check: str, plugin: Any) -> None:
    checks = type("Checks", (ProposerChecks,), {"plugin": plugin})()
    with pytest.raises((TypeError, AssertionError), match=r"unsupported operand|can only concat|nothing was drafted"):
        getattr(checks, check)()


def test_a_proposer_that_fails_on_every_call_is_named(tf_engine: Engine) -> None:
    class Checks(ProposerChecks):
        plugin = proposing("Adds", propose=drafting(adds_to_a_list))

    with pytest.raises(AssertionError, match="without the proposer: echo: propose: TypeError: "):
        Checks().test_replies_are_the_plain_ones(0.0, tf_engine)


@pytest.mark.parametrize("context", [64, 128, 195])
def test_a_target_that_is_too_short_for_the_contexts_is_noticed(context: int) -> None:
    """A context that is cut to nothing would be a check that holds nothing."""

    class Checks(ProposerChecks):
        plugin = EchoPlugin

        def target(self) -> TargetFacts:
            return target_facts(context=context)

    message = rf"has 68 tokens, which with 128 more do not fit target\(\)\.context of {context}\b"
    for check in (
        Checks.test_a_call_is_short,
        Checks.test_it_drafts,
        Checks.test_ended_streams_leave_nothing_behind,
        Checks.test_kept_bytes_are_counted,
        Checks.test_release_gives_everything_back,
    ):
        with pytest.raises(AssertionError, match=message):
            check(Checks())


def test_a_target_that_just_holds_the_contexts_is_enough() -> None:
    class Checks(ProposerChecks):
        plugin = EchoPlugin

        def target(self) -> TargetFacts:
            return target_facts(context=196)

    Checks().test_a_call_is_short()
    Checks().test_release_gives_everything_back()

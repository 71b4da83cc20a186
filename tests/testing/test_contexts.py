"""The kit hands in contexts as the host does, so that what works in a check works in a server."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.testing.good import Echo, EchoPlugin
from tests.testing.proposers import drafting, proposing
from tf_host.lanes.tokens import Tokens as HostTokens
from tf_plugins.testing import Engine, ProposerChecks, Reply
from tf_plugins.testing.tokens import Tokens
from tf_plugins.types import Draft, DraftRequest


def test_the_view_is_the_host_s() -> None:
    assert dir(Tokens) == dir(HostTokens)
    for view in (Tokens([1, 2, 3]), HostTokens([1, 2, 3])):
        assert (view[1:], list(view), view == [1, 2, 3]) == ([2, 3], [1, 2, 3], False)


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

    with pytest.raises(AssertionError, match=r"without the proposer: proposer 'echo' failed in propose.*: TypeError: "):
        Checks().test_replies_are_the_plain_ones(0.0, tf_engine)


def test_drafts_that_are_never_verified_are_noticed(tf_engine: Engine) -> None:
    """No plugin can have that in the kit's engine: this one drafts nothing for anybody."""

    class Checks(ProposerChecks):
        plugin = EchoPlugin

    with pytest.raises(AssertionError, match=r"the server verified none of \d+ drafts"):
        Checks().test_replies_are_the_plain_ones(0.0, undrafted(tf_engine))


def undrafted(real: Engine) -> Any:
    """The engine, whose replies say that no draft was verified."""

    class Server:
        def __init__(self, server: Any) -> None:
            self.proposers, self.server = server.proposers, server

        def reply(self, prompt: str, **how: Any) -> Reply:
            return self.replies([prompt], **how)[0]

        def replies(self, prompts: Sequence[str], **how: Any) -> list[Reply]:
            made = self.server.replies(prompts, **how)
            return [Reply(reply.tokens, reply.text, reply.reason, reply.rounds) for reply in made]

    @contextmanager
    def engine(*plugins: Any, **given: Any) -> Iterator[Server]:
        with real(*plugins, **given) as server:
            yield Server(server)

    return engine

"""Plugins that draft in ways that the kit has to catch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.testing.good import Echo, EchoPlugin, Unsure
from tf_plugins import Plugin, hookimpl
from tf_plugins.types import Costs, Draft, Growth


def proposing(name: str, /, **methods: Any) -> type[Plugin]:
    """The good proposer with methods, or attributes, replaced."""
    return type(f"{name}Plugin", (EchoPlugin,), {"proposer": type(name, (Echo,), methods)})


def guessing(name: str, /, change: Callable[[Draft, Any], Any]) -> type[Plugin]:
    """The good proposer that gives probabilities, with its drafts changed."""

    def one(self: Unsure, request: Any) -> Any:
        draft = Unsure.one(self, request)
        return change(draft, request) if draft else None

    return type(f"{name}Plugin", (EchoPlugin,), {"proposer": type(name, (Unsure,), {"one": one})})


def saying(each: Any, place: int = -1) -> Callable[[Draft, Any], Draft]:
    """Another number in place of a probability."""

    def change(draft: Draft, request: Any) -> Draft:
        known = list(draft.probabilities)
        known[place] = (each, *known[place][1:])
        return replace(draft, probabilities=tuple(known))

    return change


def ending(count: Callable[[Any, int], int]) -> Callable[[Draft, Any], Draft | None]:
    """Drafts of as many tokens as ``count`` says of the request and of how many there are."""

    def change(draft: Draft, request: Any) -> Draft | None:
        most = count(request, len(draft.tokens))
        return Draft(draft.tokens[:most], draft.alternatives, draft.probabilities[:most]) if most else None

    return change


def beside_it(draft: Draft, by: Callable[[tuple[float, ...]], tuple[float, ...]]) -> Draft:
    """Other probabilities of the first token and its alternative."""
    first, *rest = draft.probabilities
    return replace(draft, probabilities=(by(first), *rest))


everywhere: list[Any] = []
ticks = itertools.count()


def drafting(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, requests: [make(self, request) for request in requests]


def beside(alternatives: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """One token, and these beside it."""
    return lambda self, request: Draft((97,), alternatives(request))


def growing_context(self: Echo, request: Any) -> Draft | None:
    draft = Echo.one(self, request)
    request.context.append(0)
    return draft


def loses_its_context(self: Echo, request: Any) -> Draft | None:
    before = self.streams.get(request.stream)
    self.streams[request.stream] = request.context
    return Draft((before[-1],)) if before else None


def gives_up_on_rejection(self: Echo, outcomes: Any) -> None:
    for outcome in outcomes:
        if outcome.kept < outcome.drafted:
            del self.streams[outcome.stream]


def needs_its_stream(self: Echo, request: Any) -> Draft | None:
    assert request.stream in self.streams
    return Echo.one(self, request)


def knows_its_streams(self: Echo, outcomes: Any) -> None:
    for outcome in outcomes:
        self.streams[outcome.stream]


def remembers(self: Echo, stream: int) -> None:
    everywhere.append(self.streams.pop(stream))


def opens_unread(self: Echo, stream: int, context: Any, tokens: int) -> None:
    self.streams[stream] = []


def reads_on(self: Echo, stream: int, context: Any, most: int) -> None:
    self.streams[stream] = list(context[: len(self.streams[stream]) + most])


def reads_it_all(self: Echo, stream: int, context: Any, most: int) -> None:
    self.streams[stream] = list(context)


class Tampering(EchoPlugin):
    """Changes what the target computes."""

    @hookimpl
    def proposers(self, target: Any) -> Any:
        if target.model is not None:
            verify = target.model.verify
            target.model.verify = lambda windows: verify(windows)[:, ::-1]
        return (Echo(self.settings.width),)


def raises(*_: Any) -> Any:
    raise ValueError("planted")


IN_SERVERS = [
    (0.0, Tampering),
    (0.0, proposing("Raises", propose=raises)),
    (0.0, proposing("OpensNothing", open=raises)),
    (0.0, proposing("Deaf", observe=raises)),
    (0.0, proposing("Priceless", costs=lambda self: None, close=raises)),
    (0.0, proposing("Clings", release=raises)),
    (0.8, proposing("Far", propose=drafting(lambda self, r: Draft((10**6,))))),
    (0.8, proposing("Seldom", propose=drafting(lambda self, r: Echo.one(self, r) if r.position % 9 else Draft([-1])))),
]
"""Plugins whose replies are right, but for the first one's, and whose proposers a server goes on without."""

PROPOSERS = [
    ("test_it_names_its_drafts", proposing("Nameless", name="")),
    ("test_it_names_its_drafts", proposing("Target", name="target")),
    ("test_it_names_its_drafts", proposing("Quoted", name='a"b')),
    ("test_it_names_its_drafts", proposing("Coloured", name="\x1b[31mred")),
    ("test_it_names_its_drafts", proposing("Unlabelled", label=" ")),
    ("test_it_names_its_drafts", proposing("Tall", label="two\nlines")),
    ("test_it_drafts", proposing("Silent", propose=drafting(lambda self, r: None))),
    ("test_a_draft_respects_the_limit", proposing("Long", propose=drafting(lambda self, r: Draft((1,) * 5)))),
    ("test_a_draft_respects_the_limit", proposing("Empty", propose=drafting(lambda self, r: Draft(())))),
    ("test_alternatives_are_what_was_asked_for", proposing("Unasked", propose=drafting(beside(lambda r: ((98,),))))),
    (
        "test_alternatives_are_what_was_asked_for",
        proposing("Many", propose=drafting(beside(lambda r: (tuple(range(r.alternatives and 4)),)))),
    ),
    (
        "test_alternatives_are_what_was_asked_for",
        proposing("Itself", propose=drafting(beside(lambda r: ((97,),) if r.alternatives else ()))),
    ),
    (
        "test_alternatives_are_what_was_asked_for",
        proposing("Twice", propose=drafting(beside(lambda r: ((98,) * min(2, r.alternatives),)))),
    ),
    (
        "test_alternatives_are_what_was_asked_for",
        proposing("Further", propose=drafting(beside(lambda r: ((),) * r.alternatives))),
    ),
    (
        "test_alternatives_are_what_was_asked_for",
        proposing("Outside", propose=drafting(beside(lambda r: ((258,),) if r.alternatives else ()))),
    ),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("Partly", lambda draft, r: replace(draft, probabilities=draft.probabilities[:1])),
    ),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("Overmuch", lambda draft, r: replace(draft, probabilities=(*draft.probabilities, (0.6,)))),
    ),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("DraftsAlone", lambda draft, r: beside_it(draft, lambda first: first[:1])),
    ),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("Unasked", lambda draft, r: beside_it(draft, lambda first: (first[0], 0.2))),
    ),
    ("test_probabilities_are_of_what_is_drafted", guessing("Certain", saying(1.5))),
    ("test_probabilities_are_of_what_is_drafted", guessing("Doubtful", saying(-0.1, 0))),
    ("test_probabilities_are_of_what_is_drafted", guessing("Nan", saying(float("nan")))),
    ("test_probabilities_are_of_what_is_drafted", guessing("Endless", saying(float("inf"), 0))),
    ("test_probabilities_are_of_what_is_drafted", guessing("Text", saying("0.5"))),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("LogBeside", lambda draft, r: beside_it(draft, lambda first: (first[0], *(-1.6 for _ in first[1:])))),
    ),
    (
        "test_probabilities_are_of_what_is_drafted",
        guessing("Later", lambda draft, r: saying(1.5)(draft, r) if r.least else draft),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",
        guessing("Hasty", lambda draft, r: Draft(draft.tokens[:1] if r.least else draft.tokens)),
    ),
    ("test_a_draft_ends_early_only_where_it_may", guessing("Mute", ending(lambda r, n: 0 if r.least else n))),
    (
        "test_a_draft_ends_early_only_where_it_may",
        guessing("Hasty", ending(lambda r, n: 1 if r.least and not r.alternatives else n)),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",
        guessing("HastyBeside", ending(lambda r, n: 1 if r.least and r.alternatives else n)),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",  # before the token that falls below it, not with it
        guessing("Before", ending(lambda r, n: max(1, n - 1) if 0.6**n < r.least else n)),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",
        guessing("Other", lambda draft, r: replace(draft, tokens=(98, *draft.tokens[1:])) if r.least else draft),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",
        proposing("Longer", propose=drafting(lambda self, r: Draft(tuple(r.context[-4 if r.least else -2 :])))),
    ),
    (
        "test_a_draft_ends_early_only_where_it_may",
        proposing("Empty", propose=drafting(lambda self, r: Draft(()) if r.least else Echo.one(self, r))),
    ),
    ("test_drafted_ids_are_in_the_vocabulary", proposing("High", propose=drafting(lambda self, r: Draft((258,))))),
    ("test_drafted_ids_are_in_the_vocabulary", proposing("Negative", propose=drafting(lambda self, r: Draft((-1,))))),
    ("test_drafted_ids_are_in_the_vocabulary", proposing("Float", propose=drafting(lambda self, r: Draft((1.0,))))),
    (
        "test_a_draft_stops_at_an_end_token",
        proposing("RunsOn", propose=drafting(lambda self, r: Draft(tuple(r.context[-4:])) if r.context else None)),
    ),
    ("test_one_answer_for_each_request", proposing("Short", propose=lambda self, requests: [])),
    ("test_one_answer_for_each_request", proposing("Bare", propose=drafting(lambda self, r: [1, 2]))),
    ("test_one_answer_for_each_request", proposing("Listed", propose=drafting(lambda self, r: Draft([97])))),
    ("test_the_context_is_not_changed", proposing("Writes", propose=drafting(growing_context))),
    ("test_the_context_is_not_needed_afterwards", proposing("Borrows", propose=drafting(loses_its_context))),
    ("test_equal_contexts_give_equal_drafts", proposing("Moody", propose=drafting(lambda s, r: Draft((next(ticks),))))),
    (
        "test_an_empty_context_is_survived",
        proposing("Pending", propose=drafting(lambda self, r: Draft((r.context[-1],)))),
    ),
    (
        "test_it_follows_a_context_that_grows",
        proposing("GivesUp", observe=gives_up_on_rejection, propose=drafting(needs_its_stream)),
    ),
    ("test_late_outcomes_are_survived", proposing("Strict", observe=knows_its_streams)),
    ("test_unread_is_a_part_of_the_context", proposing("Negative", unread=lambda self, stream, length: -1)),
    ("test_unread_is_a_part_of_the_context", proposing("Beyond", unread=lambda self, stream, length: length + 1)),
    ("test_reading_ahead_reads", proposing("Gulps", open=opens_unread, read=reads_it_all)),
    ("test_reading_ahead_reads", proposing("Stuck", open=opens_unread, read=lambda self, stream, context, most: None)),
    (
        "test_reading_ahead_reads",
        proposing(
            "Sated",
            open=opens_unread,
            read=reads_on,
            propose=drafting(lambda self, r: None if self.streams[r.stream] else Echo.one(self, r)),
        ),
    ),
    ("test_costs_are_seconds", proposing("Paid", costs=lambda self: Costs(step=-1.0))),
    ("test_costs_are_seconds", proposing("Nan", costs=lambda self: Costs(read=float("nan")))),
    ("test_growth_is_arithmetic", proposing("Grows", growth=lambda self, c, t: Growth(new=t + next(ticks)))),
    ("test_growth_is_arithmetic", proposing("Shrinks", growth=lambda self, c, t: Growth(new=max(0, 2_000 - t)))),
    ("test_growth_is_arithmetic", proposing("Weighs", growth=lambda self, c, t: Growth(new=8.0 * t))),
    ("test_kept_bytes_can_be_shed", proposing("Halves", kept=lambda self: Echo.kept(self) / 1)),
    ("test_kept_bytes_can_be_shed", proposing("Clings", shed=lambda self, room: 0)),
    ("test_kept_bytes_can_be_shed", proposing("Miscounts", shed=lambda self, room: Echo.shed(self, room) + 1)),
    ("test_kept_bytes_can_be_shed", proposing("Eager", shed=lambda self, room: Echo.shed(self, room // 2))),
    ("test_ended_streams_leave_nothing_behind", proposing("Leaks", close=remembers)),
    ("test_kept_bytes_are_counted", proposing("Secret", kept=lambda self: 0)),
    ("test_release_gives_everything_back", proposing("Idle", release=lambda self: None)),
    (
        "test_release_gives_everything_back",
        proposing("Global", release=lambda self: everywhere.append(list(self.streams.values()))),
    ),
]

"""Checks for plugins that draft."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tf_plugins.testing.engine import Engine
from tf_plugins.testing.memory import MemoryChecks
from tf_plugins.testing.opened import request
from tf_plugins.tokens import Tokens
from tf_plugins.types import Draft, Outcome, ReadsAhead
from tf_plugins.types.proposer import RESERVED_NAMES

_LEASTS = (0.95, 0.5, 0.05)
"""``least`` of the requests that a draft may end early for."""

_ROUNDED = 1.01
"""What the product of the probabilities as they are given may differ by from that of those a proposer works with."""


class ProposerChecks(MemoryChecks):
    """Does it draft within the rules, give back what it takes, and leave every reply as it was?"""

    def test_it_names_its_drafts(self) -> None:
        """``name`` counts its drafts in replies and metrics, and ``label`` stands in the start-up line."""
        with self.opened() as opened:
            name, label = opened.proposer.name, opened.proposer.label
        assert isinstance(name, str)
        assert name.strip() == name != "", f"the name {name!r} is no name"
        assert name.isprintable(), f"the name {name!r} is not one line of printable text"
        assert not {*name} & {*"\"'\\"}, f"the name {name!r} has quotes or backslashes"
        assert name not in RESERVED_NAMES, f"the name {name!r} is the host's own"
        assert isinstance(label, str)
        assert label.strip(), "the label is empty"
        assert label.isprintable(), "the label is not one line of printable text"

    def test_it_drafts(self) -> None:
        """It has something to propose for at least one of ``contexts``; without, the other checks hold nothing."""
        with self.opened() as opened:
            drafts = [opened.draft(context) for context in self.contexts]
        assert any(drafts), "nothing was drafted: set `contexts` in your test class"

    def test_a_draft_respects_the_limit(self) -> None:
        """1 to ``most`` tokens, or ``None`` instead of an empty draft."""
        with self.opened() as opened:
            for most in (1, 2, 3, 7, 15):
                for context in self.contexts:
                    (draft,) = opened.ask(request(opened.stream(context), context, most))
                    if draft is not None:
                        assert 1 <= len(draft.tokens) <= most, f"{len(draft.tokens)} tokens, and most is {most}"

    def test_alternatives_are_what_was_asked_for(self) -> None:
        """At most so many in the place of each token, none where none were asked for, and no id twice in a place."""
        vocab = self.target().vocab
        with self.opened() as opened:
            for most in (0, 1, 3):
                for context in self.contexts:
                    (draft,) = opened.ask(request(opened.stream(context), context, alternatives=most))
                    if draft is None:
                        continue
                    places = draft.alternatives
                    assert len(places) <= len(draft.tokens), f"alternatives in {len(places)} places of {draft.tokens}"
                    for token, place in zip(draft.tokens, places, strict=False):
                        assert len(place) <= most, f"{len(place)} alternatives, and {most} were asked for"
                        assert len({token, *place}) == len(place) + 1, f"{place} in the place of {token}"
                        assert all(type(other) is int and 0 <= other < vocab for other in place), f"{place} are no ids"

    def test_probabilities_are_of_what_is_drafted(self) -> None:
        """One for each token and each of its alternatives, or none at all, and each a number from 0 to 1."""
        for least in (0.0, *_LEASTS):
            for most in (0, 3):
                for draft in self._drafts(alternatives=most, least=least):
                    if draft is None or not draft.probabilities:
                        continue
                    beside = [*map(len, draft.alternatives), *[0] * (len(draft.tokens) - len(draft.alternatives))]
                    given, wanted = [len(place) for place in draft.probabilities], [1 + count for count in beside]
                    assert given == wanted, f"{given} probabilities for {wanted} tokens and alternatives"
                    for each in (each for place in draft.probabilities for each in place):
                        assert isinstance(each, float | int), f"{each!r} is a {type(each).__name__}, not a float"
                        assert 0 <= each <= 1, f"{each} is no probability"

    def test_a_draft_ends_early_only_where_it_may(self) -> None:
        """Asked with ``least`` it drafts the same tokens, and at least as far as to the one that falls below it."""
        for most in (0, 3):
            whole = self._drafts(alternatives=most)
            for least in _LEASTS:
                for full, draft in zip(whole, self._drafts(alternatives=most, least=least), strict=True):
                    tokens, found = full.tokens if full else (), draft.tokens if draft else ()
                    assert bool(found) == bool(tokens), f"with `least` {least} it drafts {found}, without it {tokens}"
                    assert found == tokens[: len(found)], f"with `least` {least} it drafts {found}, without it {tokens}"
                    if full and len(found) < len(tokens):
                        assert full.probabilities, f"with `least` {least} it ends early, and gives no probabilities"
                        chance = math.prod(place[0] for place in full.probabilities[: len(found)])
                        assert chance < least * _ROUNDED, f"it ends at {chance}, and `least` is {least}"

    def test_drafted_ids_are_in_the_vocabulary(self) -> None:
        """Whole numbers below the target's vocabulary size."""
        vocab = self.target().vocab
        with self.opened() as opened:
            for token in (token for context in self.contexts for token in opened.draft(context)):
                assert type(token) is int, f"{token!r} is a {type(token).__name__}, not an int"
                assert 0 <= token < vocab, f"id {token} is not in a vocabulary of {vocab}"

    def test_a_draft_stops_at_an_end_token(self) -> None:
        """Nothing follows an id of ``end_ids``: it could never stand."""
        with self.opened() as opened:
            for context in self.contexts:
                for end in opened.draft(context)[:3]:
                    tokens = opened.draft(context, end_ids=frozenset({end}))
                    assert end not in tokens[:-1], f"tokens follow the end token {end} in {tokens}"

    def test_one_answer_for_each_request(self) -> None:
        """All streams of a round come in one call, in any order, and not every stream in every round."""
        with self.opened() as opened:
            asked = [request(opened.stream(context), context) for context in self.contexts]
            for requests in (asked, asked[::-1], asked[1:], asked[:1]):
                for answer in opened.ask(*requests):
                    assert answer is None or isinstance(answer, Draft), f"{answer!r} is neither a Draft nor None"
                    assert answer is None or isinstance(answer.tokens, tuple), f"{answer!r} holds no tuple"

    def test_the_context_is_not_changed(self) -> None:
        """It is a view of the stream's own tokens."""
        with self.opened() as opened:
            for context in self.contexts:
                shown = list(context)
                opened.ask(request(opened.stream(context), Tokens(shown)))
                assert shown == list(context), "the context was changed"

    def test_the_context_is_not_needed_afterwards(self) -> None:
        """The view holds for one call: what it shows later is no business of the proposer's."""
        answers = []
        for emptied in (False, True):
            with self.opened() as opened:
                for context in self.contexts:
                    stream, shown = opened.stream(context), list(context)
                    opened.ask(request(stream, Tokens(shown)))
                    if emptied:
                        shown.clear()
                    answers.append(opened.ask(request(stream, [*context, context[-1]]))[0])
        count = len(self.contexts)
        assert answers[:count] == answers[count:], "a context that was emptied after the call changed the next draft"

    def test_equal_contexts_give_equal_drafts(self) -> None:
        """Two fresh proposers answer the same requests alike."""
        answers = []
        for _ in range(2):
            with self.opened() as opened:
                answers.append([opened.draft(context) for context in self.contexts])
        assert answers[0] == answers[1]

    def test_an_empty_context_is_survived(self) -> None:
        """An empty context is asked for its growth at start-up; it drafts nothing, or what fits."""
        with self.opened() as opened:
            stream = opened.stream(())
            assert opened.proposer.unread(stream, 0) == 0
            (draft,) = opened.ask(request(stream, []))
            assert draft is None or 1 <= len(draft.tokens) <= 15

    def test_it_follows_a_context_that_grows(self) -> None:
        """Round after round, drafts stood, were rejected or were never verified, and the context goes its own way."""
        vocab = self.target().vocab
        with self.opened() as opened:
            context = list(self.contexts[0])
            stream = opened.stream(context)
            for turn in range(12):
                (draft,) = opened.ask(request(stream, context, most=1 + turn))
                drafted = draft.tokens if draft else ()
                assert all(0 <= token < vocab for token in drafted)
                kept = (0, len(drafted) // 2, len(drafted))[turn % 3]
                if drafted and turn % 4:
                    opened.proposer.observe([Outcome(stream, len(drafted), kept)])
                context += [*drafted[:kept], (context[-1] + turn) % vocab]

    def test_late_outcomes_are_survived(self) -> None:
        """A stream may end in the round that judged its draft."""
        with self.opened() as opened:
            stream = opened.stream(self.contexts[0])
            opened.ask(request(stream, list(self.contexts[0])))
            opened.close(stream)
            opened.proposer.observe([Outcome(stream, 1, 0), Outcome(stream + 1, 2, 2)])

    def test_unread_is_a_part_of_the_context(self) -> None:
        """Tokens to read before drafting: never more than there are, never fewer than none."""
        with self.opened() as opened:
            for context in self.contexts:
                stream = opened.stream(context)
                for length in (len(context), len(context) + 3):
                    assert 0 <= opened.proposer.unread(stream, length) <= length
                opened.ask(request(stream, context))
                assert 0 <= opened.proposer.unread(stream, len(context)) <= len(context)

    def test_reading_ahead_reads(self) -> None:
        """One with ``read`` reads no more than it is asked to, gets on, and still drafts afterwards."""
        with self.opened() as opened:
            proposer = opened.proposer
            if not isinstance(proposer, ReadsAhead):
                pytest.skip("it does not read ahead")
            drafts: list[Draft | None] = []
            for context in self.contexts:
                stream = opened.stream(context)
                for most in (3, 5, len(context)):
                    before = proposer.unread(stream, len(context))
                    proposer.read(stream, Tokens(list(context)), most)
                    after = proposer.unread(stream, len(context))
                    assert before - most <= after <= before, f"read {before - after} tokens, and most is {most}"
                assert after <= 1 or before > after, f"{after} tokens of {len(context)} are left unread"
                drafts += opened.ask(request(stream, context))
        assert any(drafts), "nothing was drafted for what was read ahead"

    def test_costs_are_seconds(self) -> None:
        """Its own measurements, 0 where it has none."""
        with self.opened() as opened:
            stream = opened.stream(self.contexts[0])
            for _ in range(2):
                costs = opened.proposer.costs()
                for value in (costs.step, costs.batch, costs.read):
                    assert math.isfinite(value)
                    assert value >= 0, f"{costs} has a negative time"
                opened.ask(request(stream, list(self.contexts[0])))

    @pytest.mark.parametrize("temperature", [0.0, 0.8])
    def test_replies_are_the_plain_ones(self, temperature: float, tf_engine: Engine) -> None:
        """Whole replies of the fake model, alone and together, are those of a server without the plugin.

        Up to its end the server counts no failure of the proposer: a reply is right without its drafts, too.
        """
        with tf_engine() as server:
            plain = [server.reply(prompt, temperature=temperature, draft=False).tokens for prompt in self.prompts]
        with tf_engine(self.plugin, settings=self.settings) as server:
            alone = [server.reply(prompt, temperature=temperature) for prompt in self.prompts]
            together = server.replies(self.prompts, temperature=temperature)
            undrafted = [server.reply(prompt, temperature=temperature, draft=False).tokens for prompt in self.prompts]
        assert [reply.tokens for reply in alone] == plain
        assert [reply.tokens for reply in together] == plain
        assert undrafted == plain
        failed = "; ".join(f"{name}: {last}" for name, last in server.failures.items())
        assert not failed, f"the server went on without the proposer: {failed}"

    def _drafts(self, **fields: Any) -> list[Draft | None]:
        """What a fresh proposer drafts for each of ``contexts``."""
        with self.opened() as opened:
            return [opened.ask(request(opened.stream(context), context, **fields))[0] for context in self.contexts]

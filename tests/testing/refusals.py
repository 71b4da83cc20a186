"""Plugins that refuse requests in ways that the kit has to catch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tests.testing.good import NoVerse
from tests.testing.test_good_plugins import VERSE
from tf_plugins import Plugin, hookimpl
from tf_plugins.testing import request_facts
from tf_plugins.types import Refusal


def refusing(name: str, answer: Callable[[Any], Any]) -> type[Plugin]:
    """A plugin that answers every request so."""

    @hookimpl
    def refuse_request(self: Plugin, request: Any) -> Any:
        return answer(request)

    return type(name, (Plugin,), {"api_version": 1, "refuse_request": refuse_request})


def renamed(name: str, answer: Callable[[Any], Any]) -> type[Plugin]:
    """The same, with the hook's method under a name of its own."""

    @hookimpl(specname="refuse_request")
    def look(self: Plugin, request: Any) -> Any:
        return answer(request)

    return type(name, (Plugin,), {"api_version": 1, "look": look})


REFUSED = {"refused": (VERSE,)}
SERVED = {"served": (request_facts(),)}


def sentence(**fields: Any) -> Callable[[Any], Refusal]:
    facts = {"name": "no_verse", "reason": "no verse here", "hint": "ask for prose", **fields}
    return lambda request: Refusal(**facts)


def sees_messages(request: Any) -> Refusal | None:
    return sentence()(request) if "verse" in request.body["messages"][0]["content"] else None


def rewrites(request: Any) -> Refusal | None:
    request.body["messages"].clear()
    return sentence()(request)


answers = itertools.cycle((sentence()(None), None))

REFUSALS = [
    ("test_something_is_refused", NoVerse, {}),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Text", lambda r: "no"), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Name", sentence(name="No Verse")), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Stop", sentence(reason="no verse.")), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Two", sentence(reason="No. Never")), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Lines", sentence(hint="a\nb")), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("NoHint", sentence(hint="")), REFUSED),
    ("test_refusals_are_one_sentence_with_a_way_out", refusing("Status", sentence(status=200)), REFUSED),
    ("test_the_rest_is_served", refusing("False", lambda r: False), SERVED),
    ("test_the_rest_is_served", renamed("RenamedFalse", lambda r: False), SERVED),
    ("test_the_rest_is_served", refusing("All", sentence()), SERVED),
    ("test_a_bare_request_is_no_error", refusing("Sees", sees_messages), {}),
    ("test_a_bare_request_is_no_error", renamed("RenamedSees", sees_messages), {}),
    (
        "test_the_request_is_not_changed",
        refusing("Rewrites", rewrites),
        {"refused": (request_facts(body={"messages": [1]}),)},
    ),
    ("test_the_host_refuses_alike", refusing("Fickle", lambda r: next(answers)), REFUSED),
]

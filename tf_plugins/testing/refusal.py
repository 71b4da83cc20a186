"""Checks for plugins that refuse requests or starts."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from tf_plugins.testing.engine import Engine
from tf_plugins.testing.facts import request_facts
from tf_plugins.testing.plugin import PluginChecks
from tf_plugins.types import Refusal, RequestFacts, StartFacts


def check_refusal(refusal: object, *, of_request: bool = True) -> None:
    """A refusal is one sentence that says what is wrong, and one that says the way out.

    Args:
        refusal: what the hook returned.
        of_request: whether its status becomes an HTTP status.
    """
    assert isinstance(refusal, Refusal), f"a refusal is a tf_plugins.types.Refusal, not {refusal!r}"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", refusal.name), f"the name {refusal.name!r} is not in snake_case"
    _check_sentence("reason", refusal.reason)
    _check_sentence("hint", refusal.hint)
    if of_request:
        assert 400 <= refusal.status <= 599, f"HTTP status {refusal.status} is no error"


def _check_sentence(field: str, text: str) -> None:
    assert text.strip(), f"the {field} is empty"
    assert "\n" not in text, f"the {field} has more than one line: {text!r}"
    assert not re.search(r"\.\s+[A-Z]", text), f"the {field} has more than one sentence: {text!r}"
    assert not text.rstrip().endswith("."), f"the {field} ends with a full stop: {text!r}"


def _own(request: RequestFacts) -> RequestFacts:
    """A copy: a plugin that changes the body changes nothing for the next check."""
    return dataclasses.replace(request, body=copy.deepcopy(request.body))


class RefusalChecks(PluginChecks):
    """Does it refuse what it should, in words that help, and nothing else?

    Attributes:
        refused: requests that it refuses.
        served: requests that it lets pass.
        refused_starts: starts that it refuses.
        served_starts: starts that it lets pass.
    """

    refused: ClassVar[Sequence[RequestFacts]] = ()
    served: ClassVar[Sequence[RequestFacts]] = ()
    refused_starts: ClassVar[Sequence[StartFacts]] = ()
    served_starts: ClassVar[Sequence[StartFacts]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """``TypeError`` for an example in the wrong list."""
        super().__init_subclass__(**more)
        places = {"refused": RequestFacts, "served": RequestFacts, "refused_starts": StartFacts}
        for name, kind in (places | {"served_starts": StartFacts}).items():
            for example in getattr(cls, name):
                if not isinstance(example, kind):
                    raise TypeError(
                        f"{cls.__name__}.{name} has a {type(example).__name__}: it is for {kind.__name__};"
                        " requests go into refused and served, starts into refused_starts and served_starts"
                    )

    def test_something_is_refused(self) -> None:
        """The class names at least one request or start that it refuses; without, the other checks hold nothing."""
        assert self.refused or self.refused_starts, "set `refused` or `refused_starts` in your test class"

    def test_refusals_are_one_sentence_with_a_way_out(self) -> None:
        """A code in snake_case, one sentence for the reason, one for the hint, an HTTP error status."""
        for request in self.refused:
            check_refusal(self._of_request(_own(request)))
        for start in self.refused_starts:
            check_refusal(self._of_start(start), of_request=False)

    def test_the_rest_is_served(self) -> None:
        """What it does not refuse it answers with ``None``; ``False`` and the like are errors to the host."""
        for request in self.served:
            assert self._of_request(_own(request)) is None
        for start in self.served_starts:
            assert self._of_start(start) is None

    def test_a_bare_request_is_no_error(self) -> None:
        """A body without the keys that it looks for does not make it raise: that would refuse with HTTP 500."""
        bodies: tuple[dict[str, Any], ...] = ({}, {"messages": []}, {"prompt": "a"})
        for body in bodies:
            answer = self._of_request(request_facts(body=body))
            assert answer is None or isinstance(answer, Refusal), f"{answer!r} is neither a Refusal nor None"

    def test_the_request_is_not_changed(self) -> None:
        """The body is shown, not given."""
        for request in (*self.refused, *self.served, request_facts()):
            shown = _own(request)
            self._of_request(shown)
            assert shown.body == request.body, "the plugin changed the request's body"

    def test_the_host_refuses_alike(self, tf_engine: Engine) -> None:
        """A server with the plugin refuses the same requests with the same words."""
        if not (self.refused or self.served):
            return
        with tf_engine(self.plugin, settings=self.settings) as server:
            for request in self.refused:
                assert server.refuse_request(request) == self._of_request(_own(request))
            for request in self.served:
                assert server.refuse_request(request) is None

    def _of_request(self, request: RequestFacts) -> Any:
        """What a fresh plugin answers to a request."""
        return self.hooks().ask("refuse_request", request=request)

    def _of_start(self, start: StartFacts) -> Any:
        """What a fresh plugin answers to a start."""
        return self.hooks().ask("refuse_start", start=start)

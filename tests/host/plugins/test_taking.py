"""Who may take the drafter, and who took it."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.plugins.test_facade import FakeProposer
from tests.host.plugins.test_facade import plugins as answering
from tf_copy.plugin import CopyPlugin
from tf_host.plugins import Found, LoadedPlugin, Plugins
from tf_host.plugins.checks import checked
from tf_host.plugins.taking import SeenTarget
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_plugins import Plugin, hookimpl
from tf_plugins.testing import checkpoint, target_facts
from tf_plugins.types import TargetFacts

DRAFTER = target_facts(drafter=checkpoint(name="d"))


def using(*kinds: type[Plugin]) -> Plugins:
    """These plugins, by the names of their classes."""
    loaded = []
    for kind in kinds:
        found = Found(kind.__name__, None, "dist-house", "1.0")  # type: ignore[arg-type]
        loaded.append(LoadedPlugin(found, kind(None), checked(found, kind)[1]))
    return Plugins(loaded)


def proposing(proposers: Callable[..., Any], **options: Any) -> type[Plugin]:
    name = "proposers" if not options else "mine"
    return type("House", (Plugin,), {"api_version": 1, name: hookimpl(proposers, **options)})


def helper(target: Any) -> Any:
    return [FakeProposer(target.drafter.name)]


def passed_on(self: Any, target: Any) -> Any:
    return helper(target)


def captured(self: Any, target: Any) -> Any:
    return [one() for one in (lambda: helper(target)[0],)]


@functools.wraps(passed_on)
def wrapped(self: Any, target: Any) -> Any:
    return passed_on(self, target)


def left_alone(self: Any, target: Any) -> Any:
    return [FakeProposer("left")]


def not_taken(self: Any) -> Any:
    return [FakeProposer("not")]


def vocabulary(self: Any, target: Any) -> Any:
    return [FakeProposer(str(target.vocab))]


def looks(self: Any, target: Any) -> Any:
    return [] if target.drafter else [FakeProposer("looks")]


@pytest.mark.parametrize("proposers", [passed_on, captured, wrapped])
@pytest.mark.parametrize("options", [{}, {"specname": "proposers"}], ids=["", "renamed"])
def test_whoever_looks_and_proposes_takes_it(proposers: Callable[..., Any], options: dict[str, Any]) -> None:
    asked = using(CopyPlugin, proposing(proposers, **options))
    assert asked.may_take_drafter()
    assert [one.name for one in asked.proposers(DRAFTER)] == ["copy", "d"]
    assert asked.takers == ("House",)


def test_one_that_does_not_take_its_target_cannot() -> None:
    asked = using(CopyPlugin, proposing(not_taken))
    assert not asked.may_take_drafter()
    assert (len(asked.proposers(DRAFTER)), asked.takers) == (2, ())


@pytest.mark.parametrize("proposers", [left_alone, vocabulary, looks])
def test_one_that_might_have_and_did_not(proposers: Callable[..., Any]) -> None:
    asked = using(CopyPlugin, proposing(proposers))
    assert asked.may_take_drafter()
    asked.proposers(DRAFTER)
    assert asked.takers == ()


def test_without_a_hook_nobody_takes_it() -> None:
    assert not answering(a={"round_done": None}).may_take_drafter()
    assert not using(CopyPlugin).may_take_drafter()


def test_the_llama_drafter_takes_those_of_its_family() -> None:
    asked = using(LlamaDrafterPlugin)
    assert asked.may_take_drafter()
    assert (asked.proposers(DRAFTER), asked.takers) == ((), ())


def test_the_facts_are_what_they_were() -> None:
    seen = SeenTarget.of(DRAFTER)
    assert (seen.vocab, seen.looked) == (DRAFTER.vocab, False)
    assert isinstance(seen, TargetFacts)
    assert (seen.drafter, seen.looked) == (DRAFTER.drafter, True)
    for made in (dataclasses.replace(SeenTarget.of(DRAFTER), vocab=3), copy.copy(SeenTarget.of(DRAFTER))):
        assert made.drafter == DRAFTER.drafter
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.vocab = 3  # type: ignore[misc]

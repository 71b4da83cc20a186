"""Plugins that admit streams in ways that the kit has to catch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.testing.good import Ledger, LedgerPlugin
from tf_plugins import Plugin, Refused, hookimpl
from tf_plugins.types import Refusal


def ruling(name: str, /, **methods: Any) -> type[Plugin]:
    """The good ledger with methods replaced."""
    return type(f"{name}Plugin", (LedgerPlugin,), {"ledger": type(name, (Ledger,), methods)})


def admitting(self: Ledger, demand: Any, *, trims: bool = True, sheds: bool = False) -> bool:
    """The good rule with a step left out or done too early."""
    if sheds:
        for proposer in self.resources.shedding.values():
            proposer.shed(0)
    if len(self.streams) >= self.parallel or self.taken() + self.resources.bytes_for(demand.tokens) > self.budget:
        return False
    if trims:
        self.resources.states.trim(0, None)
    demand.allocate(None)
    self.streams[demand.stream] = (demand.cache, sum(one.new for one in demand.growth().values()))
    return True


def touching(self: Ledger, demand: Any) -> bool:
    self.resources.states.trim(0, None)
    return Ledger.admit(self, demand)


def swallowing(self: Ledger, demand: Any) -> bool:
    try:
        return Ledger.admit(self, demand)
    except MemoryError:
        return False


def booking_first(self: Ledger, demand: Any) -> bool:
    if len(self.streams) < self.parallel:
        self.streams[demand.stream] = (demand.cache, 0)
    return Ledger.admit(self, demand)


def told(**fields: Any) -> Callable[[Any, Any], None]:
    """Starts with other facts than it was given."""
    return lambda self, given: Ledger.__init__(self, dataclasses.replace(given, **fields))


def promising(self: Ledger, demand: Any) -> bool:
    before = dict(self.reserved)
    admitted = Ledger.admit(self, demand)
    self.reserved = before | self.reserved
    return admitted


def hoarding(self: Ledger, demand: Any) -> bool:
    return self.kept() + self.peak(demand) <= self.budget and Ledger.admit(self, demand)


class TakesAnything(LedgerPlugin):
    @hookimpl
    def admission(self, resources: Any) -> Any:
        return self.ledger(resources)


class NoNumber(LedgerPlugin):
    @hookimpl
    def admission(self, resources: Any) -> Any:
        if resources.memory < 4 << 30:
            raise Refused(Refusal("memory", "one stream does not fit", "use a larger machine"))
        return self.ledger(resources)


ADMISSIONS = [
    (
        "test_it_answers_with_room_for_a_stream",
        ruling("Poor", __init__=lambda s, r: (Ledger.__init__(s, r), vars(s).update(budget=1))[0]),
    ),
    (
        "test_it_answers_with_room_for_a_stream",
        ruling("Closed", __init__=lambda s, r: (Ledger.__init__(s, r), vars(s).update(parallel=0))[0]),
    ),
    ("test_too_little_memory_refuses_the_start", TakesAnything),
    ("test_too_little_memory_refuses_the_start", NoNumber),
    ("test_the_budget_is_never_passed", ruling("Forgets", admit=lambda self, d: admitting(self, d))),
    ("test_the_budget_is_never_passed", ruling("Allocates", admit=lambda self, d: admitting(self, d, trims=False))),
    ("test_the_budget_is_what_was_given", ruling("Unlimited", __init__=told(limit=None))),
    ("test_the_budget_is_what_was_given", ruling("Weightless", __init__=told(weights=0))),
    ("test_used_is_what_is_allocated", ruling("Vague", used=lambda self: {"streams": self.taken()})),
    ("test_used_is_what_is_allocated", ruling("Holds", release=lambda self, stream: None)),
    ("test_a_failed_allocation_gives_everything_back", ruling("Swallows", admit=swallowing)),
    ("test_a_failed_allocation_gives_everything_back", ruling("BooksFirst", admit=booking_first)),
    ("test_a_stream_that_waits_touches_nothing", ruling("Touches", admit=touching)),
    (
        "test_parallel_is_the_limit",
        ruling(
            "Wide",
            __init__=lambda s, r: (Ledger.__init__(s, r), s.__dict__.update())[0],
            admit=lambda self, d: (self.streams.update({d.stream: (0, 0)}), True)[1],
        ),
    ),
    ("test_a_given_parallel_is_held", ruling("Four", __init__=told(parallel=None))),
    (
        "test_a_given_parallel_is_held",
        ruling(
            "Million", __init__=lambda s, r: (Ledger.__init__(s, r), vars(s).update(parallel=r.parallel or 10**6))[0]
        ),
    ),
    ("test_what_can_never_fit_is_refused", ruling("Hopeful", never=lambda self, demand: None)),
    ("test_what_can_never_fit_is_refused", ruling("Grim", never=lambda s, d: Refusal("no", "no", "no"))),
    ("test_a_stream_alone_is_not_kept_waiting", ruling("Hoards", admit=hoarding)),
    ("test_releasing_what_holds_nothing_is_no_error", ruling("Picky", release=lambda s, n: s.streams.pop(n))),
    ("test_a_reserved_state_is_kept_once", ruling("Again", keep=lambda s, n, nbytes: nbytes in s.reserved.get(n, ()))),
    ("test_reserved_states_stay_within_the_budget", ruling("Promises", admit=promising)),
    ("test_states_are_kept_within_their_limit", ruling("Collects", __init__=told(states_limit=None))),
    ("test_only_reserved_states_may_be_kept", ruling("Generous", keep=lambda self, stream, nbytes: True)),
]

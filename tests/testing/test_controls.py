"""Every check of the kit catches at least one plugin that is broken in the way that it names."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from tests.testing.good import Counter, Echo, EchoPlugin, Ledger, LedgerPlugin
from tests.testing.refusals import REFUSALS, refusing
from tf_plugins import Plugin, PluginError, Refused, hookimpl
from tf_plugins.testing import (
    AdmissionChecks,
    Engine,
    ObserverChecks,
    PluginChecks,
    ProposerChecks,
    RefusalChecks,
    request_facts,
)
from tf_plugins.types import Costs, Draft, Growth, Refusal

KIT = (PluginChecks, ProposerChecks, AdmissionChecks, RefusalChecks, ObserverChecks)


@dataclass(frozen=True)
class Control:
    """A plugin that ``check`` of ``kind`` has to catch, with attributes of the test class."""

    check: str
    kind: type[PluginChecks]
    plugin: Any
    given: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.check.removeprefix('test_')}-{getattr(self.plugin, '__name__', self.plugin)}"


def proposing(name: str, /, **methods: Any) -> type[Plugin]:
    """The good proposer with methods, or attributes, replaced."""
    return type(f"{name}Plugin", (EchoPlugin,), {"proposer": type(name, (Echo,), methods)})


def ruling(name: str, /, **methods: Any) -> type[Plugin]:
    """The good ledger with methods replaced."""
    return type(f"{name}Plugin", (LedgerPlugin,), {"ledger": type(name, (Ledger,), methods)})


# Plugins


class NoClass:
    pass


class NoVersion(EchoPlugin):
    api_version = 0


class NoHook(Plugin):
    api_version = 1

    def proposers(self, target: Any) -> tuple[()]:
        return ()


class Misspelled(Plugin):
    api_version = 1

    @hookimpl
    def proposer(self, target: Any) -> tuple[()]:
        return ()


class OtherParameter(Plugin):
    api_version = 1

    @hookimpl
    def round_done(self, done: Any) -> None:
        return None


class Loose(BaseModel):
    width: int = 4


class LoosePlugin(EchoPlugin):
    Settings = Loose


class NoStart(EchoPlugin):
    def __init__(self, settings: Any) -> None:
        raise RuntimeError("planted")


# Proposers

everywhere: list[Any] = []
ticks = itertools.count()


def drafting(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, requests: [make(self, request) for request in requests]


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

# Admissions


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


class Fussy(Counter):
    @hookimpl
    def stream_done(self, stream: Any) -> None:
        self.rate = len(stream.tokens) / stream.seconds


class Forges(Counter):
    @hookimpl
    def round_done(self, round: Any) -> None:
        round.drafted["copy"] = 10**9


class ForgesEnds(Counter):
    @hookimpl
    def stream_done(self, stream: Any) -> None:
        stream.drafted["copy"] = 10**9


class Wrecks(Counter):
    """Reverses the model's logits for everybody."""

    def __init__(self, settings: object) -> None:
        super().__init__(settings)
        from tf_host.testing.model import ByteModel

        ByteModel.verify = lambda model, windows, real=ByteModel.verify: real(model, windows)[:, ::-1]


CONTROLS = [
    Control("test_it_is_a_plugin_class", PluginChecks, NoClass),
    Control("test_it_is_a_plugin_class", PluginChecks, EchoPlugin(None)),
    Control("test_it_states_the_api_version", PluginChecks, NoVersion),
    Control("test_it_has_a_hook", PluginChecks, NoHook),
    Control("test_its_hooks_fit_their_specifications", PluginChecks, Misspelled),
    Control("test_its_hooks_fit_their_specifications", PluginChecks, OtherParameter),
    Control("test_unknown_settings_are_an_error", PluginChecks, LoosePlugin),
    Control("test_settings_are_described", PluginChecks, LoosePlugin),
    Control("test_the_host_starts_with_it", PluginChecks, Misspelled),
    Control("test_the_host_starts_with_it", PluginChecks, NoHook),
    Control("test_the_host_starts_with_it", PluginChecks, NoStart),
    *(Control(check, ProposerChecks, plugin) for check, plugin in PROPOSERS),
    Control(
        "test_a_call_is_short",
        ProposerChecks,
        proposing("Sleeps", propose=lambda self, r: (time.sleep(0.02), Echo.propose(self, r))[1]),
        {"seconds": 0.01},
    ),
    Control("test_replies_are_the_plain_ones", ProposerChecks, Tampering, arguments={"temperature": 0.0}),
    *(Control(check, AdmissionChecks, plugin) for check, plugin in ADMISSIONS),
    *(Control(check, RefusalChecks, plugin, given) for check, plugin, given in REFUSALS),
    Control("test_it_takes_every_round_and_stream", ObserverChecks, Fussy),
    Control("test_what_it_is_told_is_not_changed", ObserverChecks, Forges),
    Control("test_what_it_is_told_is_not_changed", ObserverChecks, ForgesEnds),
    Control("test_replies_are_the_plain_ones", ObserverChecks, Wrecks),
]


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_broken_plugin_is_caught(control: Control, tf_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from tf_host.testing.model import ByteModel

    monkeypatch.setattr(ByteModel, "verify", ByteModel.verify)  # put back what a control changes
    everywhere.clear()
    checks = type("Checks", (control.kind,), {"plugin": control.plugin, **control.given})()
    check = getattr(checks, control.check)
    arguments = dict(control.arguments)
    if "tf_engine" in inspect.signature(check).parameters:
        arguments["tf_engine"] = tf_engine
    with pytest.raises((Exception, pytest.fail.Exception)) as caught:
        check(**arguments)
    assert not isinstance(caught.value, TypeError | NameError | ImportError), "caught by accident"


def test_every_check_has_a_control() -> None:
    checks = {(kind, name) for kind in KIT for name in vars(kind) if name.startswith("test_")}
    controlled = {(kind, c.check) for c in CONTROLS for kind in c.kind.__mro__ if c.check in vars(kind)}
    assert checks - controlled == set()


def test_a_body_that_changed_in_one_check_is_whole_in_the_next() -> None:
    class Checks(RefusalChecks):
        plugin = refusing("Drops", lambda r: r.body.pop("stop", None) and Refusal("no_stop", "no stop here", "drop it"))
        refused = (request_facts(body={"stop": "q"}),)

    Checks().test_refusals_are_one_sentence_with_a_way_out()
    with pytest.raises(AssertionError, match="the plugin changed the request's body"):
        Checks().test_the_request_is_not_changed()


def test_a_slow_call_is_found_before_it_slows_the_other_checks() -> None:
    assert next(name for name in vars(ProposerChecks) if name.startswith("test_")) == "test_a_call_is_short"


def test_the_host_names_what_is_broken(tf_engine: Engine) -> None:
    with (
        pytest.raises(PluginError, match=r"Misspelled.* failed in proposer: there is no such hook"),
        tf_engine(Misspelled),
    ):
        pass

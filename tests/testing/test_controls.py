"""Every check of the kit catches at least one plugin that is broken in the way that it names."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from tests.testing.admissions import ADMISSIONS
from tests.testing.good import Counter, Echo, EchoPlugin
from tests.testing.proposers import IN_SERVERS, PROPOSERS, everywhere, proposing
from tests.testing.refusals import REFUSALS, refusing
from tf_plugins import Plugin, PluginError, hookimpl
from tf_plugins.testing import (
    AdmissionChecks,
    Engine,
    ObserverChecks,
    PluginChecks,
    ProposerChecks,
    RefusalChecks,
    request_facts,
    start_facts,
)
from tf_plugins.types import Refusal

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
        kind = self.plugin if isinstance(self.plugin, type) else type(self.plugin)
        return f"{self.check.removeprefix('test_')}-{kind.__name__}"


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


class Renamed(Plugin):
    """Its hook's method has a name of its own."""

    api_version = 1

    @hookimpl(specname="round_done")
    def on_round(self, round: Any) -> None:
        raise RuntimeError("planted")


class RenamedForges(Plugin):
    api_version = 1

    @hookimpl(specname="stream_done")
    def on_stream(self, stream: Any) -> None:
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
    *(
        Control("test_replies_are_the_plain_ones", ProposerChecks, plugin, arguments={"temperature": temperature})
        for temperature, plugin in IN_SERVERS
    ),
    *(Control(check, AdmissionChecks, plugin) for check, plugin in ADMISSIONS),
    *(Control(check, RefusalChecks, plugin, given) for check, plugin, given in REFUSALS),
    Control("test_it_takes_every_round_and_stream", ObserverChecks, Fussy),
    Control("test_it_takes_every_round_and_stream", ObserverChecks, Renamed),
    Control("test_what_it_is_told_is_not_changed", ObserverChecks, Forges),
    Control("test_what_it_is_told_is_not_changed", ObserverChecks, RenamedForges),
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
    kinds = {base for kind in KIT for base in kind.__mro__}
    checks = {(kind, name) for kind in kinds for name in vars(kind) if name.startswith("test_")}
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
    own = [kind for kind in reversed(ProposerChecks.__mro__) if kind not in PluginChecks.__mro__]  # as pytest collects
    assert next(name for kind in own for name in vars(kind) if name.startswith("test_")) == "test_a_call_is_short"


def test_the_host_names_what_is_broken(tf_engine: Engine) -> None:
    with (
        pytest.raises(PluginError, match=r"Misspelled.* failed in proposer: there is no such hook"),
        tf_engine(Misspelled),
    ):
        pass


@pytest.mark.parametrize("name", ["refused", "served", "refused_starts", "served_starts"])
def test_an_example_in_the_wrong_list_is_named(name: str) -> None:
    wrong: Any = request_facts() if "starts" in name else start_facts()
    with pytest.raises(TypeError, match=rf"Mine.{name} has a {type(wrong).__name__}: it is for"):
        type("Mine", (RefusalChecks,), {name: (wrong,)})

"""Plugins without a fault pass every check."""

from __future__ import annotations

from typing import ClassVar

from tests.testing.good import (
    BufferedPlugin,
    Counter,
    EchoPlugin,
    FewerEvents,
    FewerProposers,
    FewerRefusals,
    LedgerPlugin,
    NoVerse,
    RenamedAdmission,
    UnsurePlugin,
)
from tf_plugins.testing import (
    AdmissionChecks,
    ObserverChecks,
    ProposerChecks,
    RefusalChecks,
    request_facts,
    start_facts,
    target_facts,
)
from tf_plugins.types import TargetFacts

VERSE = request_facts(body={"messages": [{"role": "user", "content": "a verse"}]})


class TestEcho(ProposerChecks):
    plugin = EchoPlugin


class TestEchoWithSettings(ProposerChecks):
    plugin = EchoPlugin
    settings: ClassVar = {"width": 9}


class TestUnsure(ProposerChecks):
    plugin = UnsurePlugin


class TestUnsureWithSettings(ProposerChecks):
    plugin = UnsurePlugin
    settings: ClassVar = {"width": 9}


class TestLedger(AdmissionChecks):
    plugin = LedgerPlugin


class TestNoVerse(RefusalChecks):
    plugin = NoVerse
    refused = (VERSE,)
    served = (request_facts(),)
    refused_starts = (start_facts(parallel=9),)
    served_starts = (start_facts(), start_facts(parallel=None))


class TestCounter(ObserverChecks):
    plugin = Counter


class TestFewerProposers(ProposerChecks):
    plugin = FewerProposers


class TestRenamedAdmission(AdmissionChecks):
    plugin = RenamedAdmission


class TestFewerRefusals(RefusalChecks):
    plugin = FewerRefusals
    refused = (VERSE,)
    refused_starts = (start_facts(),)


class TestFewerEvents(ObserverChecks):
    plugin = FewerEvents


class TestBuffered(ProposerChecks):
    plugin = BufferedPlugin


class TestBufferedWithLongContexts(ProposerChecks):
    plugin = BufferedPlugin
    contexts = (tuple(b"0123456789 " * 25),) * 3


class TestBufferedWithLongerContexts(ProposerChecks):
    plugin = BufferedPlugin
    contexts = (tuple(b"0123456789 " * 100),)


class TestBufferedWithAShortTarget(ProposerChecks):
    plugin = BufferedPlugin

    def target(self) -> TargetFacts:
        return target_facts(context=200)

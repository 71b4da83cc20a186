"""Plugins without a fault pass every check."""

from __future__ import annotations

from typing import ClassVar

from tests.testing.good import Counter, EchoPlugin, LedgerPlugin, NoVerse, UnsurePlugin
from tf_plugins.testing import (
    AdmissionChecks,
    ObserverChecks,
    ProposerChecks,
    RefusalChecks,
    request_facts,
    start_facts,
)

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

"""The conformance kit: base classes of pytest tests that a plugin's author subclasses.

    class TestPromptLookup(ProposerChecks):
        plugin = PromptLookupPlugin

``PluginChecks`` are for every plugin; ``ProposerChecks``, ``AdmissionChecks``, ``RefusalChecks`` and
``ObserverChecks`` add what their kind must do. Each check is a method ``test_...`` whose docstring says what it holds,
and each may be overridden. Whole replies are made by the fixture ``tf_engine``, which comes with tf-plugins: a small
deterministic model that needs no weights. The kit imports the standard library, pluggy and pytest.
"""

import pytest

_MODULES = ("admission", "ledger", "memory", "observer", "opened", "plugin", "proposer", "proposing", "refusal")
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from tf_plugins.testing.admission import AdmissionChecks  # noqa: E402
from tf_plugins.testing.engine import Engine, Reply, Server  # noqa: E402
from tf_plugins.testing.facts import (  # noqa: E402
    checkpoint,
    device,
    request_facts,
    resources,
    start_facts,
    target_facts,
)
from tf_plugins.testing.observer import ObserverChecks  # noqa: E402
from tf_plugins.testing.plugin import PluginChecks  # noqa: E402
from tf_plugins.testing.proposer import ProposerChecks  # noqa: E402
from tf_plugins.testing.refusal import RefusalChecks, check_refusal  # noqa: E402

__all__ = [
    "AdmissionChecks",
    "Engine",
    "ObserverChecks",
    "PluginChecks",
    "ProposerChecks",
    "RefusalChecks",
    "Reply",
    "Server",
    "check_refusal",
    "checkpoint",
    "device",
    "request_facts",
    "resources",
    "start_facts",
    "target_facts",
]

"""The plugins in the box run the kit that third parties run."""

from __future__ import annotations

from importlib.metadata import entry_points

from tf_copy.plugin import CopyPlugin
from tf_demo.plugin import DemoPlugin
from tf_llama.budget.plugin import LlamaBudgetPlugin
from tf_llama.drafter.plugin import LlamaDrafterPlugin
from tf_llama.plugin import LlamaPlugin
from tf_plugins.testing import AdmissionChecks, PluginChecks, ProposerChecks


class TestCopy(ProposerChecks):
    plugin = CopyPlugin


class TestLlamaBudget(AdmissionChecks):
    plugin = LlamaBudgetPlugin


class TestLlama(PluginChecks):
    plugin = LlamaPlugin


class TestDemo(PluginChecks):
    plugin = DemoPlugin


class TestLlamaDrafterAsAPlugin(PluginChecks):
    plugin = LlamaDrafterPlugin


def test_none_is_left_out() -> None:
    tested = {
        checks.plugin
        for checks in globals().values()
        if isinstance(checks, type) and issubclass(checks, PluginChecks) and hasattr(checks, "plugin")
    }
    ours = [entry for entry in entry_points(group="tf_plugins") if entry.dist and entry.dist.name == "tf-plugins"]
    assert {entry.load() for entry in ours} <= tested

"""What the kit and the pytest plugin import, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"mlx", "mlx_lm", "numpy", "transformers", "pydantic", "fastapi"}


def imported(module: str) -> set[str]:
    """Top-level packages in a process that imported ``module`` and nothing else."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_pytest_plugin_is_light() -> None:
    names = imported("tf_host.testing.pytest_plugin")
    assert "pytest" in names
    assert not names & HEAVY


@pytest.mark.parametrize("module", ["tf_plugins", "tf_plugins.types", "tf_plugins.hookspecs"])
def test_the_api_imports_pluggy_and_no_more(module: str) -> None:
    names = imported(module)
    assert not names & (HEAVY | {"pytest", "tf_host"})
    assert names - set(imported("sys")) - set(sys.stdlib_module_names) == {"tf_plugins", "pluggy"}


def test_the_kit_imports_pluggy_and_pytest_and_no_more() -> None:
    assert imported("tf_plugins.testing") - imported("pytest, pluggy") - set(sys.stdlib_module_names) == {"tf_plugins"}

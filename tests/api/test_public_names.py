"""``__all__`` of every public module is right and complete."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import tf_plugins

MODULES = [
    importlib.import_module(name)
    for _, name, _ in pkgutil.walk_packages(tf_plugins.__path__, "tf_plugins.")
    if "._" not in name
]
PACKAGES = [module for module in [tf_plugins, *MODULES] if hasattr(module, "__path__")]


def own(module: ModuleType) -> set[str]:
    """Public classes and functions that a module, or a module of its package, defines."""
    inside = module.__name__ if hasattr(module, "__path__") else None
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and (value.__module__ == module.__name__ or (inside and value.__module__.startswith(f"{inside}.")))
    }


@pytest.mark.parametrize(
    "module", [m for m in [tf_plugins, *MODULES] if hasattr(m, "__all__")], ids=lambda m: m.__name__
)
def test_all_names_exist_and_are_sorted(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda m: m.__name__)
def test_a_package_lists_everything_that_it_offers(package: ModuleType) -> None:
    assert own(package) <= set(package.__all__)
    assert list(package.__all__) == sorted(package.__all__, key=lambda name: (not name.isupper(), name))


def test_types_offers_what_its_modules_define() -> None:
    from tf_plugins import types

    modules = [module for module in MODULES if module.__name__.startswith("tf_plugins.types.")]
    defined = {
        name
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
    assert defined <= set(types.__all__)
    assert {"Progress", "Role"} <= set(types.__all__)  # aliases, which know no module
    assert set(types.__all__) == defined | {"Progress", "Role"}


def test_every_public_name_has_a_docstring() -> None:
    lacking = [
        f"{module.__name__}.{name}"
        for module in [tf_plugins, *MODULES]
        for name in own(module)
        if not inspect.getdoc(getattr(module, name))
    ]
    assert lacking == []


def test_the_version_is_one_number() -> None:
    assert tf_plugins.API_VERSION == 1

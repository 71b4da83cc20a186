"""What a plugin class must be before it is used."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import Any

from tf_host.plugins.discover import Found
from tf_host.settings.nearest import did_you_mean
from tf_plugins import API_VERSION, ENTRY_POINT_GROUP, Plugin, hookspecs

_IMPL = f"{ENTRY_POINT_GROUP}_impl"
_SPEC = f"{ENTRY_POINT_GROUP}_spec"

HOOKS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(function).parameters)
    for name, function in vars(hookspecs).items()
    if hasattr(function, _SPEC)
}
"""Every hook's parameters, by hook name."""


def checked(found: Found, named: object) -> tuple[type[Plugin], tuple[str, ...]]:
    """The plugin class that the entry point names, and the hooks it implements; ``PluginError``."""
    if not (isinstance(named, type) and issubclass(named, Plugin)):
        raise found.failed(
            "import",
            f"{found.entry.value} is not a subclass of tf_plugins.Plugin",
            f'its entry point must name the class: {found.name} = "package.module:ClassName"',
        )
    if named.api_version == 0:
        raise found.failed(
            "import",
            f"{named.__name__} does not state the plugin API that it was written for",
            f"its class needs the line api_version = {API_VERSION}",
        )
    stated: object = named.api_version
    if not isinstance(stated, int):
        raise found.failed(
            "import",
            f"the api_version of {named.__name__} is {stated!r} and not a whole number",
            f"its class needs the line api_version = {API_VERSION}",
        )
    if stated != API_VERSION:
        raise found.failed(
            "import",
            f"it was written for plugin API {stated!r}, and this host has {API_VERSION}",
            f"upgrade {found.distribution}" if stated < API_VERSION else "upgrade tf-plugins",
        )
    families: object = named.drafts_with
    if isinstance(families, str) or not isinstance(families, Collection) or {type(one) for one in families} - {str}:
        raise found.failed(
            "import",
            f"the drafts_with of {named.__name__} is {families!r} and no set of names of families",
            'write it drafts_with = frozenset({"llama"})',
        )
    hooks = tuple(sorted(set(_hooks(found, named))))  # one by its name and one by specname are asked together
    if not hooks:
        raise found.failed(
            "import",
            f"{named.__name__} implements no hook",
            f"mark a method with @hookimpl; the hooks are {', '.join(HOOKS)}",
        )
    return named, hooks


def _hooks(found: Found, plugin: type[Plugin]) -> Iterator[str]:
    for attribute in dir(plugin):
        member = inspect.getattr_static(plugin, attribute)
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        options = getattr(function, _IMPL, None)
        if options is None:
            if attribute in HOOKS:
                raise found.failed(
                    attribute, f"{plugin.__name__}.{attribute} is not marked", "put @hookimpl above the method"
                )
            continue
        hook = options.get("specname") or attribute
        if hook not in HOOKS:
            if options.get("optionalhook"):
                continue
            raise found.failed(hook, "there is no such hook", did_you_mean(hook, HOOKS, _all_hooks()))
        _check_options(found, hook, options)
        _check_signature(found, hook, function, bound=not isinstance(member, staticmethod))
        yield hook


def _all_hooks() -> str:
    return f"the hooks are {', '.join(HOOKS)}"


def _check_options(found: Found, hook: str, options: dict[str, Any]) -> None:
    for option in ("wrapper", "hookwrapper", "tryfirst", "trylast"):
        if options.get(option):
            raise found.failed(
                hook, f"@hookimpl({option}=True) has no effect here", "plugins are asked one by one, in settings order"
            )


def _check_signature(found: Found, hook: str, function: Any, *, bound: bool) -> None:
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
        or inspect.isgeneratorfunction(function)
    ):
        raise found.failed(hook, "it is async or a generator", "make it a plain method that returns its answer")
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    for parameter in parameters:
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            cause = f"its parameter {str(parameter)!r} is not a plain one"
            raise found.failed(hook, cause, f"write it {_definition(hook)}")
        if parameter.default is not inspect.Parameter.empty:
            cause = f"its parameter {parameter.name!r} has a default, which would hide the host's value"
            raise found.failed(hook, cause, f"write it {_definition(hook)}")
        if parameter.name not in HOOKS[hook]:
            raise found.failed(hook, f"it has no parameter {parameter.name!r}", f"write it {_definition(hook)}")


def _definition(hook: str) -> str:
    return f"def {hook}({', '.join(('self', *HOOKS[hook]))})"

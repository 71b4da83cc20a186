"""A call of a plugin at start-up; whatever goes wrong in it has a name."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tf_host.plugins.answers import refusal_fault
from tf_host.plugins.discover import Found
from tf_host.plugins.load import one_line
from tf_plugins import Refused, TfError
from tf_plugins.types import Refusal

T = TypeVar("T")


def ask(found: Found, hook: str, call: Callable[[], T], whose: str = "") -> T:
    """A plugin's own answer.

    Args:
        found: the plugin.
        hook: the hook, or the method of an object that a hook gave.
        call: asks it.
        whose: that object, for example ``family 'house'``.

    Raises:
        PluginError: whatever the plugin raised, but for errors that it raised on purpose; those come through.
    """
    try:
        return call()
    except TfError as error:
        if isinstance(error, Refused):
            check_refusal(found, hook, error.refusal)
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # somebody's Ctrl-C; on other threads it is the plugin's
        hint = f"report it to the authors of {found.distribution}, or take {found.name!r} out of use"
        raise found.failed(hook, f"{whose}: {one_line(error)}" if whose else one_line(error), hint) from error


def check_refusal(found: Found, hook: str, answer: object, *, of_request: bool = False) -> None:
    """``PluginError`` for an answer that is neither ``None`` nor a refusal that can be shown."""
    if answer is not None and (fault := refusal_fault(answer, of_request=of_request)):
        what = "return a Refusal, or None for no objection"
        raise found.failed(hook, fault, "see tf_plugins.types.Refusal" if isinstance(answer, Refusal) else what)

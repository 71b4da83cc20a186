"""Families and named checkpoints that fail at start-up are their plugins' failures, and are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.host.plugins.test_facade import STOP, plugins
from tf_host.testing.family import ByteFamily
from tf_plugins import PluginError, Refused, SettingsError
from tf_plugins.testing import checkpoint, device
from tf_plugins.types import Family, NamedCheckpoint, Refusal, RefusesEarly

HERE = Path("m")


def quiet(doing: str, done: float) -> None:
    pass


CALLS: dict[str, Callable[[Any], Any]] = {
    "recognises": lambda family: family.recognises(HERE),
    "refuse": lambda family: family.refuse(HERE, "target", "m"),
    "read": lambda family: family.read(HERE, "target", "m"),
    "load": lambda family: family.load(checkpoint(), device(), quiet),
    "load_tokenizer": lambda family: family.load_tokenizer(checkpoint()),
}


def family(**methods: Any) -> Family:
    """The family of bytes with methods replaced, as the host holds it."""
    made = type("House", (ByteFamily,), {"name": "house", **methods})()
    good = type("Good", (ByteFamily,), {"name": "good"})()
    given = plugins(a={"families": [good]}, bad={"families": [made]}).families()
    assert [one.name for one in given] == ["good", "house"]
    return given[1]


def resolving(resolve: Callable[[Any], Any]) -> NamedCheckpoint:
    """A name, as the host holds it."""
    (made,) = plugins(bad={"checkpoints": [NamedCheckpoint("mine", resolve, "mine-drafter")]}).checkpoints()
    return made


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("error", [KeyError("house_version"), SystemExit("house_version"), MemoryError("a\nb")])
def test_what_a_family_raises_names_plugin_and_method(method: str, error: BaseException) -> None:
    with pytest.raises(PluginError) as caught:
        CALLS[method](family(**{method: raising(error)}))
    said = caught.value
    assert (said.plugin, said.distribution, said.version, said.hook) == ("bad", "dist-bad", "1.0", method)
    assert said.cause.startswith(f"family 'house': {type(error).__name__}: ")
    assert said.hint == "report it to the authors of dist-bad, or take 'bad' out of use"
    assert (said.cause.count("\n"), said.__cause__) == (0, error)


def test_what_a_name_raises_names_plugin_and_method() -> None:
    with pytest.raises(PluginError) as caught:
        resolving(raising(KeyError("nope"))).resolve(quiet)
    assert (caught.value.plugin, caught.value.hook) == ("bad", "resolve")
    assert re.fullmatch(rf"checkpoint 'mine': KeyError: 'nope' \(line \d+ of {__file__}\)", caught.value.cause)


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("error", [Refused(STOP), SettingsError("no")])
def test_what_is_raised_on_purpose_passes_as_it_is(method: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        CALLS[method](family(**{method: raising(error)}))
    assert caught.value is error
    with pytest.raises(type(error)) as caught:
        resolving(raising(error)).resolve(quiet)
    assert caught.value is error


def test_a_refusal_that_cannot_be_shown_is_the_plugin_s_error() -> None:
    with pytest.raises(PluginError, match="failed in read: the reason of its Refusal is ''"):
        CALLS["read"](family(read=raising(Refused(Refusal("no", "", "no")))))


def test_ctrl_c_is_no_failure_of_a_family() -> None:
    with pytest.raises(KeyboardInterrupt):
        CALLS["read"](family(read=raising(KeyboardInterrupt())))
    with ThreadPoolExecutor() as thread, pytest.raises(PluginError, match="failed in load: family 'house': Keyboard"):
        thread.submit(CALLS["load"], family(load=raising(KeyboardInterrupt()))).result()


@pytest.mark.parametrize(
    ("method", "answer", "cause"),
    [
        ("read", None, "its NoneType is no Checkpoint: it has no type Checkpoint"),
        ("load", {}, "its dict is no Model: it has no checkpoint"),
    ],
)
def test_rubbish_of_a_family(method: str, answer: Any, cause: str) -> None:
    with pytest.raises(PluginError) as caught:
        CALLS[method](family(**{method: lambda *_: answer}))
    assert (caught.value.hook, caught.value.cause) == (method, f"family 'house': {cause}")


def test_a_folder_is_a_path() -> None:
    with pytest.raises(PluginError, match="failed in resolve: checkpoint 'mine': it returned str and not a Path"):
        resolving(lambda progress: "/models/m").resolve(quiet)


def test_a_family_without_a_fault_is_itself() -> None:
    seen: list[Any] = []
    made = family(refuse=lambda self, *given: seen.append(given), recognises=lambda self, folder: 1)
    assert isinstance(made, RefusesEarly)
    assert made.recognises(HERE) is True
    CALLS["refuse"](made)
    assert seen == [(HERE, "target", "m")]
    assert (CALLS["read"](made).name, CALLS["load_tokenizer"](made)) == ("m", None)
    assert CALLS["load"](made).cache_bytes(64)
    plain: Any = family()
    assert plain.refuse(HERE, "target") is None
    mine = resolving(lambda progress: HERE)
    assert (mine.name, mine.drafter, mine.resolve(quiet)) == ("mine", "mine-drafter", HERE)

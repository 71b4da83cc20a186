"""What a plugin class must be."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tf_host.plugins.checks import HOOKS, checked
from tf_host.plugins.discover import Found
from tf_plugins import Plugin, PluginError, hookimpl

FOUND = Found("mine", EntryPoint("mine", "package:Mine", "tf_plugins"), "tf-plugin-mine", "1.2")


class Base(Plugin):
    api_version = 1


def test_a_version_that_is_no_number() -> None:
    class Text(Base):
        api_version = "1"  # type: ignore[assignment]

    assert said(Text) == (
        "import: the api_version of Text is '1' and not a whole number\nhint: its class needs the line api_version = 1"
    )


@pytest.mark.parametrize("families", ["llama", None, ("llama", 3)])
def test_families_that_are_no_names(families: object) -> None:
    named = type("Odd", (Base,), {"drafts_with": families, "round_done": hookimpl(lambda self: None)})
    assert said(named) == (
        f"import: the drafts_with of Odd is {families!r} and no set of names of families\n"
        'hint: write it drafts_with = frozenset({"llama"})'
    )


def said(named: object) -> str:
    with pytest.raises(PluginError) as caught:
        checked(FOUND, named)
    return str(caught.value).removeprefix("plugin 'mine' (tf-plugin-mine 1.2) failed in ")


def test_the_hooks_are_those_of_the_hookspecs() -> None:
    assert HOOKS == {
        "families": (),
        "checkpoints": (),
        "proposers": ("target",),
        "admission": ("resources",),
        "refuse_start": ("start",),
        "refuse_request": ("request",),
        "round_done": ("round",),
        "stream_done": ("stream",),
    }


def test_hooks_of_every_allowed_form() -> None:
    class Mine(Base):
        @hookimpl
        def families(self):
            return ()

        @hookimpl
        def round_done(self):  # fewer parameters are allowed
            pass

        @staticmethod
        @hookimpl
        def stream_done(stream):
            pass

        @classmethod
        @hookimpl
        def refuse_start(cls, start):
            pass

        @hookimpl(specname="proposers")
        def make_proposers(self, target):
            return ()

        @hookimpl(optionalhook=True)
        def hook_of_a_later_host(self):
            pass

    assert checked(FOUND, Mine) == (
        Mine,
        ("families", "proposers", "refuse_start", "round_done", "stream_done"),
    )


def test_a_hook_by_its_name_and_by_specname_is_one_hook() -> None:
    class Twice(Base):
        @hookimpl
        def round_done(self, round):
            pass

        @hookimpl(specname="round_done")
        def also(self, round):
            pass

    assert checked(FOUND, Twice)[1] == ("round_done",)


def test_inherited_hooks_count() -> None:
    class Shared(Base):
        @hookimpl
        def families(self):
            return ()

    class Mine(Shared):
        pass

    assert checked(FOUND, Mine)[1] == ("families",)


def test_a_misspelled_hook() -> None:
    class Mine(Base):
        @hookimpl
        def proposer(self, target):
            return ()

    assert said(Mine) == "proposer: there is no such hook\nhint: did you mean proposers?"


def test_a_misspelled_hook_beside_a_good_one() -> None:
    class Mine(Base):
        @hookimpl
        def families(self):
            return ()

        @hookimpl
        def on_end(self):
            pass

    assert said(Mine).startswith("on_end: there is no such hook\nhint: the hooks are families, checkpoints")


def test_an_unmarked_hook() -> None:
    class Mine(Base):
        @hookimpl
        def families(self):
            return ()

        def round_done(self, round):
            pass

    assert said(Mine) == "round_done: Mine.round_done is not marked\nhint: put @hookimpl above the method"


def plain(function: object) -> type[Plugin]:
    return type("Mine", (Base,), {"proposers": hookimpl(function)})


async def _async(self, target):
    return ()


async def _async_generator(self, target):
    yield


def _generator(self, target):
    yield


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda self, target=None: (), "its parameter 'target' has a default, which would hide the host's value"),
        (lambda self, *, target: (), "its parameter 'target' is not a plain one"),
        (lambda self, target, /: (), "its parameter 'target' is not a plain one"),
        (lambda self, *target: (), "its parameter '*target' is not a plain one"),
        (lambda self, **facts: (), "its parameter '**facts' is not a plain one"),
        (lambda self, model: (), "it has no parameter 'model'"),
        (lambda self, target, more: (), "it has no parameter 'more'"),
    ],
)
def test_parameters(function: object, cause: str) -> None:
    assert said(plain(function)) == f"proposers: {cause}\nhint: write it def proposers(self, target)"


@pytest.mark.parametrize("function", [_async, _async_generator, _generator])
def test_only_plain_methods(function: object) -> None:
    assert said(plain(function)).startswith("proposers: it is async or a generator\nhint: make it a plain method")


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper", "tryfirst", "trylast"])
def test_options_without_effect(option: str) -> None:
    class Mine(Base):
        @hookimpl(**{option: True})
        def proposers(self, target):
            yield

    assert said(Mine).startswith(f"proposers: @hookimpl({option}=True) has no effect here\nhint: plugins are asked")

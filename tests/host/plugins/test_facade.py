"""The facade: one plugin at a time, joined in settings order, and every failure has a name."""

from __future__ import annotations

import copy
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from tf_host.lanes import drafting, windows
from tf_host.plugins import Found, LoadedPlugin, Plugins
from tf_host.plugins.checks import HOOKS, checked
from tf_plugins import Plugin, PluginError, Refused, TfError, hookimpl
from tf_plugins.testing import checkpoint as checkpoint_facts
from tf_plugins.testing import request_facts, resources, start_facts, target_facts
from tf_plugins.types import NamedCheckpoint, Refusal
from tf_plugins.types.proposer import RESERVED_NAMES

FACTS: dict[str, tuple[Any, ...]] = {
    "families": (),
    "checkpoints": (),
    "proposers": (target_facts(),),
    "admission": (resources(),),
    "refuse_start": (start_facts(),),
}
STOP = Refusal("no", "it is refused", "do not ask")


def plugins(**answers: dict[str, Any]) -> Plugins:
    """Plugins by name, in order; each hook's answer is a value to return, or an exception to raise."""
    loaded = []
    for name, hooks in answers.items():
        found = Found(name, EntryPoint(name, f"{name}:Mine", "tf_plugins"), f"dist-{name}", "1.0")
        methods = {hook: hookimpl(_method(hook, answer)) for hook, answer in hooks.items()}
        named, implemented = checked(found, type(name, (Plugin,), {"api_version": 1, **methods}))
        loaded.append(LoadedPlugin(found, named(None), implemented))
    return Plugins(loaded)


def _method(hook: str, answer: Any) -> Any:
    def say(facts: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer(facts) if callable(answer) else answer

    parameters = HOOKS[hook]
    source = (
        f"def {hook}(self{''.join(', ' + name for name in parameters)}): return say({', '.join(parameters) or None})"
    )
    space: dict[str, Any] = {"say": say}
    exec(source, space)
    return space[hook]


def checkpoint(name: str) -> NamedCheckpoint:
    return NamedCheckpoint(name, lambda progress: None)  # type: ignore[arg-type, return-value]


class FakeProposer:
    label = "fake"

    def __init__(self, name: str, released: list[str] | None = None) -> None:
        self.name = name
        self.released = [] if released is None else released

    def growth(self) -> None: ...

    open = unread = propose = observe = close = kept = shed = costs = growth

    def release(self) -> None:
        self.released.append(self.name)


class FakeAdmission:
    budget = parallel = 1

    def never(self) -> None: ...

    admit = keep = release = used = never


# collectors


def test_collected_in_settings_order() -> None:
    asked = plugins(b={"checkpoints": [checkpoint("2"), checkpoint("1")]}, a={"checkpoints": (checkpoint("3"),)})
    assert [one.name for one in asked.checkpoints()] == ["2", "1", "3"]


def test_nothing_and_none_are_nothing() -> None:
    asked = plugins(a={"checkpoints": []}, b={"checkpoints": None}, c={"round_done": None})
    assert asked.checkpoints() == ()
    assert asked.families() == ()


@pytest.mark.parametrize("hook", ["checkpoints", "families", "proposers", "admission", "refuse_start"])
def test_an_exception_names_the_plugin(hook: str) -> None:
    asked = plugins(good={"round_done": None}, bad={hook: ValueError("a b\nc")})
    with pytest.raises(PluginError) as caught:
        getattr(asked, hook)(*FACTS[hook])
    error = caught.value
    assert (error.plugin, error.distribution, error.hook) == ("bad", "dist-bad", hook)
    assert re.fullmatch(rf"ValueError: a b \(line \d+ of {__file__}\)", error.cause)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("hook", ["proposers", "admission"])
def test_a_plugin_that_exits_on_the_engine_s_thread_is_named(hook: str, error: BaseException) -> None:
    asked = plugins(bad={hook: error})
    with ThreadPoolExecutor() as thread, pytest.raises(PluginError, match=rf"failed in {hook}: {type(error).__name__}"):
        thread.submit(getattr(asked, hook), *FACTS[hook]).result()


def test_ctrl_c_is_no_failure_of_a_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        plugins(bad={"checkpoints": KeyboardInterrupt()}).checkpoints()


@pytest.mark.parametrize("hook", ["proposers", "admission"])
def test_a_refusal_passes_as_it_is(hook: str) -> None:
    with pytest.raises(Refused) as caught:
        getattr(plugins(a={hook: Refused(STOP)}), hook)(*FACTS[hook])
    assert caught.value.refusal is STOP


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (checkpoint("x"), "it returned NamedCheckpoint and not a sequence of NamedCheckpoint"),
        ("demo", "it returned str and not a sequence of NamedCheckpoint"),
        ({checkpoint("x")}, "it returned set and not a sequence of NamedCheckpoint"),
        ([checkpoint("x"), "demo"], "its str is no NamedCheckpoint: it has no type NamedCheckpoint"),
        ([checkpoint("x"), checkpoint("x")], "it gives the name 'x' twice"),
    ],
)
def test_rubbish_in_a_collector(answer: Any, cause: str) -> None:
    with pytest.raises(PluginError) as caught:
        plugins(bad={"checkpoints": answer}).checkpoints()
    assert (caught.value.plugin, caught.value.hook, caught.value.cause) == ("bad", "checkpoints", cause)


@pytest.mark.parametrize("hook", ["checkpoints", "proposers"])
def test_a_name_that_two_plugins_give(hook: str) -> None:
    make = checkpoint if hook == "checkpoints" else FakeProposer
    asked = plugins(first={hook: [make("x")]}, second={hook: [make("y"), make("x")]})
    with pytest.raises(PluginError) as caught:
        getattr(asked, hook)(*FACTS[hook])
    assert caught.value.plugin == "second"
    assert caught.value.cause == "it gives the name 'x', and so does plugin 'first' (dist-first 1.0)"


def test_an_object_that_lacks_a_method() -> None:
    class Half:
        name = "half"

    with pytest.raises(PluginError, match="its Half is no Proposer: it has no label"):
        plugins(a={"proposers": [Half()]}).proposers(target_facts())


@pytest.mark.parametrize(
    "name", [3, None, [], "", " a", "a\nb", 'a"b', "a'b", "a\\b", "a\x1b[31m", "target", "grammar"]
)
def test_a_proposer_is_not_called_so(name: Any) -> None:
    with pytest.raises(PluginError) as caught:
        plugins(bad={"proposers": [FakeProposer(name)]}).proposers(target_facts())
    assert (caught.value.plugin, caught.value.hook) == ("bad", "proposers")
    assert caught.value.cause.startswith(f"its name {name!r} is ")


@pytest.mark.parametrize("label", [3, "", "two\nlines"])
def test_a_label_is_one_line_of_text(label: Any) -> None:
    proposer = FakeProposer("good")
    proposer.label = label
    with pytest.raises(PluginError, match=r"its label .* is not one line of printable text"):
        plugins(bad={"proposers": [proposer]}).proposers(target_facts())


def test_a_name_may_be_any_printable_text() -> None:
    for name in ("suffix-lookup 2", "entwürfe", "(x)"):
        plugins(a={"proposers": [FakeProposer(name)]}).proposers(target_facts())


def test_lanes_have_no_other_names_of_their_own() -> None:
    assert {windows.TARGET, drafting.GRAMMAR} == RESERVED_NAMES


def test_a_class_is_no_object(caplog: pytest.LogCaptureFixture) -> None:
    class Half(FakeProposer):
        name = "half"

    for hook, item in (("proposers", [Half]), ("admission", lambda facts: FakeAdmission)):
        with pytest.raises(PluginError, match=r"its \w+ is a class and not an object"):
            getattr(plugins(a={hook: item}), hook)(*FACTS[hook])
    assert caplog.records == []


def test_a_proposer_s_plugin_is_known() -> None:
    asked = plugins(a={"proposers": [FakeProposer("x")]}, b={"proposers": [FakeProposer("y")]})
    asked.proposers(target_facts())
    assert (asked.giver("x").distribution, asked.giver("y").distribution) == ("dist-a", "dist-b")


def test_proposers_get_the_facts_and_keep_their_order() -> None:
    asked = plugins(
        a={"proposers": lambda facts: [FakeProposer(facts.checkpoint.name)]}, b={"proposers": [FakeProposer("b")]}
    )
    made = asked.proposers(target_facts(checkpoint=checkpoint_facts(name="seen")))
    assert [proposer.name for proposer in made] == ["seen", "b"]


@pytest.mark.parametrize("failure", [ValueError("late"), Refused(STOP), [FakeProposer("1")], "rubbish"])
def test_proposers_already_made_are_released_when_one_fails(failure: Any) -> None:
    released: list[str] = []
    first = [FakeProposer("1", released), FakeProposer("2", released)]
    with pytest.raises(TfError):
        plugins(a={"proposers": first}, b={"proposers": failure}).proposers(target_facts())
    assert released == ["2", "1"]


def test_a_release_that_fails_does_not_hide_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(FakeProposer):
        def release(self) -> None:
            raise RuntimeError("stuck")

    released: list[str] = []
    made = [FakeProposer("1", released), Stuck("2")]
    with pytest.raises(Refused):
        plugins(a={"proposers": made}, b={"proposers": Refused(STOP)}).proposers(target_facts())
    assert released == ["1"]
    assert "a Stuck failed while it was released" in caplog.text


# deciders


def test_the_first_refusal_stands_and_ends_the_search() -> None:
    asked: list[str] = []

    def note(name: str, answer: Refusal | None) -> Any:
        return lambda facts: asked.append(name) or answer

    other = Refusal("other", "later", "")
    four = plugins(
        a={"refuse_start": note("a", None), "refuse_request": note("a", None)},
        b={"refuse_start": note("b", STOP), "refuse_request": note("b", STOP)},
        c={"refuse_start": note("c", other), "refuse_request": note("c", other)},
    )
    assert four.refuse_start(SimpleNamespace()) is STOP  # type: ignore[arg-type]
    assert four.refuse_request(request_facts()) is STOP
    assert asked == ["a", "b", "a", "b"]


@pytest.mark.parametrize("answer", [False, True, [], [STOP], "no"])
def test_a_decider_answers_a_refusal_or_none(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    asked = plugins(a={"refuse_start": answer, "refuse_request": answer}, b={"refuse_start": STOP})
    with pytest.raises(PluginError, match=f"refuse_start: it returned {type(answer).__name__}"):
        asked.refuse_start(SimpleNamespace())  # type: ignore[arg-type]
    refusal = asked.refuse_request(request_facts())
    assert refusal is not None
    assert (refusal.status, refusal.name) == (500, "plugin_error")
    said = f"plugin 'a' (dist-a 1.0) failed in refuse_request: it returned {type(answer).__name__}"
    assert caplog.messages == [f"request r1: {said}\nhint: return a Refusal, or None for no objection"]
    asked.refuse_request(request_facts(id="r2"))
    assert caplog.messages[1:] == [f"request r2: {said}"]


def test_no_objection() -> None:
    asked = plugins(a={"refuse_start": None, "refuse_request": None})
    assert asked.refuse_start(SimpleNamespace()) is None  # type: ignore[arg-type]
    assert asked.refuse_request(request_facts()) is None


BAD_REFUSALS = {
    "name of its Refusal is None": Refusal(None, "no", "no"),  # type: ignore[arg-type]
    "name of its Refusal is ''": Refusal("", "no", "no"),
    "reason of its Refusal is ''": Refusal("no", "", "no"),
    "reason of its Refusal is b'x'": Refusal("no", b"x", "no"),  # type: ignore[arg-type]
    r"reason of its Refusal is '\ud800'": Refusal("no", "\ud800", "no"),
    "hint of its Refusal is None": Refusal("no", "no", None),  # type: ignore[arg-type]
    r"hint of its Refusal is '\udfff'": Refusal("no", "no", "\udfff"),
    "param of its Refusal is 3": Refusal("no", "no", "no", param=3),  # type: ignore[arg-type]
}
BAD_STATUS = {
    f"status of its Refusal is {status!r}": Refusal("no", "no", "no", status=status)  # type: ignore[arg-type]
    for status in (0, 100, 200, 204, 399, 600, 9999, None, "403", 403.0, True)
}


@pytest.mark.parametrize("fault", [*BAD_REFUSALS, *BAD_STATUS])
def test_a_refusal_that_cannot_be_sent_is_the_plugin_s_error(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    refusal = plugins(bad={"refuse_request": (BAD_REFUSALS | BAD_STATUS)[fault]}).refuse_request(request_facts())
    assert refusal is not None
    assert (refusal.name, refusal.status) == ("plugin_error", 500)
    assert f"plugin 'bad' (dist-bad 1.0) failed in refuse_request: the {fault} and not" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("fault", BAD_REFUSALS)
def test_a_start_is_not_refused_in_words_that_cannot_be_shown(fault: str) -> None:
    refusal = BAD_REFUSALS[fault]
    with pytest.raises(PluginError) as caught:
        plugins(bad={"refuse_start": refusal}).refuse_start(SimpleNamespace())  # type: ignore[arg-type]
    assert (caught.value.hook, fault in caught.value.cause) == ("refuse_start", True)
    with pytest.raises(PluginError) as caught:
        plugins(bad={"admission": Refused(refusal)}).admission(SimpleNamespace())  # type: ignore[arg-type]
    assert (caught.value.hook, fault in caught.value.cause) == ("admission", True)


def test_no_status_of_a_refused_start_is_read() -> None:
    for refusal in BAD_STATUS.values():
        assert plugins(a={"refuse_start": refusal}).refuse_start(SimpleNamespace()) is refusal  # type: ignore[arg-type]


def test_each_plugin_gets_a_body_of_its_own() -> None:
    seen: list[Any] = []

    def forge(facts: Any) -> None:
        seen.append(copy.deepcopy(facts.body))
        facts.body["messages"][0]["content"] = "forged"
        facts.body["more"] = 1

    request = request_facts()
    before = copy.deepcopy(request.body)
    plugins(a={"refuse_request": forge}, b={"refuse_request": forge}).refuse_request(request)
    assert seen == [before, before]
    assert request.body == before


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit("x"), KeyboardInterrupt("x")])
def test_a_failed_look_at_a_request_refuses_it_with_500(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    refusal = plugins(bad={"refuse_request": error}).refuse_request(request_facts())
    assert refusal is not None
    assert (refusal.status, refusal.reason) == (500, "plugin 'bad' failed while it looked at the request")
    assert f"plugin 'bad' (dist-bad 1.0) failed in refuse_request: {type(error).__name__}: {error}" in caplog.text
    assert "Traceback" in caplog.text


def test_the_first_admission_is_taken() -> None:
    mine = FakeAdmission()
    asked = plugins(a={"admission": None}, b={"admission": mine}, c={"admission": FakeAdmission()})
    assert asked.admission(SimpleNamespace()) is mine  # type: ignore[arg-type]


def test_an_admission_must_be_one() -> None:
    with pytest.raises(PluginError, match="its list is no Admission: it has no budget"):
        plugins(a={"admission": []}).admission(SimpleNamespace())  # type: ignore[arg-type]


def test_without_an_admission_nothing_starts() -> None:
    with pytest.raises(TfError, match="no plugin in use decides on admission\nhint: add llama-budget"):
        plugins(a={"admission": None}).admission(SimpleNamespace())  # type: ignore[arg-type]

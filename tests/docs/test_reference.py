"""The reference pages say what the code says: every hook, type and setting, in its own words."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tf_plugins
from tests.docs import reference
from tests.docs.pages import DOCS, blocks, headings, part
from tests.testing.good import Echo, Ledger
from tf_host.plugins import Found
from tf_host.plugins.checks import HOOKS, checked
from tf_host.settings import ServerSettings, load
from tf_host.testing.family import ByteFamily
from tf_plugins import Plugin, Refused, errors, types
from tf_plugins.testing import check_refusal, request_facts, resources, start_facts, target_facts
from tf_plugins.types import Refusal, RoundDone, StreamDone

HOOK_PAGE, TYPE_PAGE, SETTING_PAGE = (DOCS / "reference" / f"{name}.md" for name in ("hooks", "types", "settings"))


@pytest.mark.parametrize(
    ("where", "make"), reference.parts().items(), ids=lambda value: getattr(value, "__name__", None)
)
def test_generated_parts_are_up_to_date(where: tuple[Path, str], make: Callable[[], str]) -> None:
    page, name = where
    assert part(page, name) == make(), "run: python -m tests.docs.reference"


@pytest.mark.parametrize("hook", reference.hook_functions())
def test_every_hook_has_a_heading_with_its_exact_signature(hook: str) -> None:
    function = reference.hook_functions()[hook]
    source = Path(tf_plugins.hookspecs.__file__).read_text()
    written = re.search(rf"^def ({hook}\(.*\) -> .+):$", source, re.M)
    assert written
    assert f"`{written[1]}`" in headings(HOOK_PAGE)
    assert reference.signature(function) == written[1]


def test_the_pages_know_every_hook_type_and_setting() -> None:
    assert set(reference.hook_functions()) == set(HOOKS)
    assert set(types.__all__) - {"Progress", "Role"} <= set(headings(TYPE_PAGE))
    assert set(errors.__all__) <= set(headings(TYPE_PAGE))
    text = SETTING_PAGE.read_text()
    for field in ServerSettings.model_fields:
        assert f"| `{field}`<br>" in text
    for name, plugin in reference.built_in_plugins().items():
        assert f"### `[plugins.{name}]`" in text
        for key in plugin.Settings.model_fields if plugin.Settings else ():
            assert f"| `{key}` |" in text


@pytest.mark.parametrize("hook", reference.hook_functions())
def test_a_hook_says_when_it_is_called_and_what_its_answer_means(hook: str) -> None:
    text = " ".join((reference.hook_functions()[hook].__doc__ or "").split())
    for words in ("Called once", "thread", "settings order|first", "exception|Raises", r"Since \d", "Example:"):
        assert re.search(words, text), f"the docstring of {hook} does not say: {words}"


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "families": lambda plugin: plugin.families(),
    "checkpoints": lambda plugin: plugin.checkpoints(),
    "proposers": lambda plugin: plugin.proposers(target_facts()),
    "admission": lambda plugin: plugin.admission(resources(limit=1 << 30)),
    "refuse_start": lambda plugin: plugin.refuse_start(start_facts()),
    "refuse_request": lambda plugin: plugin.refuse_request(request_facts(key="key 2", max_tokens=300)),
    "round_done": lambda plugin: plugin.round_done(RoundDone(1, 1, 1, 2.0)),
    "stream_done": lambda plugin: plugin.stream_done(
        StreamDone("r", "stop", 1, 0, (), 1, 0.1, drafted={"copy": 3}, kept={"copy": 2})
    ),
}


def plugin_of(example: str, hook: str) -> type[Plugin]:
    """A plugin that answers the hook as the example does."""
    names: dict[str, Any] = {
        **{name: getattr(types, name) for name in types.__all__},
        "hookimpl": tf_plugins.hookimpl,
        "log": logging.getLogger("example"),
        "Path": Path,
        "Refused": Refused,
        "Sequence": list,
        "HouseFamily": ByteFamily,
        "HouseProposer": lambda vocab: Echo(),
        "HouseAdmission": lambda limit: Ledger(resources(memory=limit)),
    }
    exec(example, names)
    return type("Example", (Plugin,), {"api_version": 1, hook: names[hook]})


@pytest.mark.parametrize("hook", reference.hook_functions())
def test_the_example_of_a_hook_works(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (example,) = [block.text for block in blocks(HOOK_PAGE, "python") if f"def {hook}(self" in block.text][-1:]
    plugin = plugin_of(example, hook)
    found = Found("example", SimpleNamespace(value="example:Example"), "example", "1")  # type: ignore[arg-type]
    assert checked(found, plugin)[1] == (hook,)
    answer = ANSWERS[hook](plugin(None))
    if isinstance(answer, Refusal):
        check_refusal(answer)
    elif hook in reference.OBSERVERS:
        assert answer is None
        assert caplog.text
    else:
        assert answer


def test_the_example_of_a_refusal_works() -> None:
    (example,) = [block.text for block in blocks(TYPE_PAGE, "python") if "raise Refused(" in block.text]
    plugin: Any = plugin_of(example, "proposers")(None)
    assert plugin.proposers(target_facts(context=100_000))
    with pytest.raises(Refused) as caught:
        plugin.proposers(target_facts(context=100_001))
    check_refusal(caught.value.refusal)
    assert "100001" in caught.value.refusal.reason


def test_the_settings_page_s_example_loads(tmp_path: Path) -> None:
    (example,) = blocks(SETTING_PAGE, "toml")
    file = tmp_path / "serve.toml"
    file.write_text(example.text)
    settings = load(["--settings", str(file), "--port", "9000"]).settings
    assert (settings.drafter, settings.port) == ("", 9000)
    assert settings.plugin_tables["copy"] == {"enter_match": 6}

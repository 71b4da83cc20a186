"""The page at ``/``: its files, and what a browser makes of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.browser import CHROMIUM, DRIVER, browsing
from tests.fakes.scripted_engine import Script, ScriptedEngine
from tests.host.http.conftest import World
from tf_host.http.web import PAGE
from tf_host.settings import ServerSettings
from tf_host.text import Text

SOURCES = ("drafter", "drafter", "target", "target", "copy", "copy", "copy", "target", "grammar", "target")
SAYS = "once upon a time there was a model that proposed tokens and another that verified each of them in turn"


class BusyEngine(ScriptedEngine):
    """Reports what real lanes report."""

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {
            "reading": 0,
            "rounds": 100,
            "tokens": 250,
            "drafted": {"drafter": 200},
            "kept": {"drafter": 150},
            "budget": 4 << 30,
            "ledger": {"streams": 1 << 30},
        }


# The files.


@pytest.mark.parametrize("path", PAGE)
def test_a_file_of_the_page(world: World, path: str) -> None:
    answer = world.client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == PAGE[path][1]
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_page_needs_no_key_and_tells_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(api_key="secret"), names=("hidden-name",))
    for path in PAGE:
        answer = world.client.get(path)
        assert answer.status_code == 200
        assert "hidden-name" not in answer.text
        assert "secret" not in answer.text


def test_the_page_needs_no_network(world: World) -> None:
    for path in PAGE:
        text = world.client.get(path).text
        assert (
            re.findall(r"(?:https?:)?//(?=[\w.-]+\.\w)[^\s'\"]*", text.replace("http://www.w3.org/2000/svg", "")) == []
        )
        assert "@import" not in text
    script = world.client.get("/page.js").text
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "cookie"):
        assert way not in script, "the page shows text as text, and keeps nothing past its tab"


# What the stream says of each token.


def test_pieces_make_the_text(world: World) -> None:
    said = "naïve café 東京 🚀 once"
    world.says(said, sources=SOURCES)
    reply = world.chat(return_token_ids=True).json()["choices"][0]
    assert "".join(reply["pieces"]) == said == reply["message"]["content"]
    assert len(reply["pieces"]) == len(reply["token_ids"]) == len(reply["sources"])
    assert "pieces" not in world.chat().json()["choices"][0]


# In a browser.


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("selenium", reason="needs the package selenium")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    with browsing(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


class Page:
    """The page in a browser."""

    def __init__(self, browser: Any, world: World, text: Text) -> None:
        self.browser = browser
        self.world = world
        self._text = text
        browser.get(f"{world.url}/")

    def says(self, text: str, **script: Any) -> None:
        self.world.engine.script = Script(self._text.encode(text, special=False), **script)

    def press(self, *keys: str) -> None:
        """Types into whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def texts(self, selector: str) -> list[str]:
        # In one call: elements may be replaced while they are read.
        script = "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent)"
        found: list[str] = self.browser.execute_script(script, selector)
        return found

    def wait(self, true: Callable[[], object], what: str) -> None:
        end = time.monotonic() + 20
        while not true():
            assert time.monotonic() < end, f"{what} did not happen; the page says: {self.texts('body')[0][:2000]}"
            time.sleep(0.02)

    def wait_done(self, replies: int = 1) -> None:
        self.wait(lambda: len(self.texts(".turn.assistant:not(.busy)")) == replies, f"the end of reply {replies}")

    @property
    def focus(self) -> str:
        found: str = self.browser.switch_to.active_element.get_attribute("id")
        return found


@pytest.fixture
def page(browser: Any, make_world: Callable[..., World], text: Text) -> Page:
    world = make_world(engine=BusyEngine())
    page = Page(browser, world, text)
    page.wait(lambda: page.texts("#model") == ["tiny"], "the model's name")
    page.says(SAYS, sources=SOURCES)
    return page


ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
SHIFT, RELEASE = "\ue008", "\ue000"


def test_tokens_stream_and_kept_drafts_are_shaded(page: Page) -> None:
    page.says(SAYS, sources=SOURCES, pause=0.2)
    page.press("hi", ENTER)
    lengths = set()
    page.wait(lambda: lengths.add(len("".join(page.texts(".assistant .text")))) or len(lengths) > 3, "streaming")
    page.wait_done()
    assert "".join(page.texts(".assistant .text")) == SAYS
    ids = page.world.served.text.encode(SAYS, special=False)
    expected: list[tuple[str, str]] = []
    for at, token in enumerate(ids):
        source, piece = SOURCES[at % len(SOURCES)], page.world.served.text.name(token)
        if expected and expected[-1][0] == source:
            expected[-1] = (source, expected[-1][1] + piece)
        else:
            expected.append((source, piece))
    shown = page.browser.execute_script(
        "return [...document.querySelectorAll('.assistant .kept')].map(n => [n.dataset.source, n.textContent])"
    )
    assert [tuple(each) for each in shown] == [each for each in expected if each[0] != "target"]
    shades = page.browser.execute_script(
        "return [...document.querySelectorAll('.assistant .text span')]"
        ".map(n => [n.dataset.of, getComputedStyle(n).backgroundColor])"
    )
    by_source = {source: {shade for of, shade in shades if of == source} for source in set(SOURCES)}
    assert all(len(found) == 1 for found in by_source.values())
    assert len({shade for found in by_source.values() for shade in found}) == 4, "each source has its own shade"


def test_what_each_source_brought(page: Page) -> None:
    page.press("hi", ENTER)
    page.wait_done()
    # The end token is the model's own, too.
    tokens = len(page.world.served.text.encode(SAYS, special=False)) + 1
    counts = dict(zip(("target", "drafter", "copy", "grammar"), page.texts("#legend .count"), strict=True))
    drawn = [SOURCES[at % len(SOURCES)] for at in range(tokens)]
    assert {source: int(count) for source, count in counts.items()} == {s: drawn.count(s) for s in counts}
    facts = page.texts(".assistant .facts")[0]
    assert f"{tokens} tokens" in facts
    assert re.search(r"kept \d+ of \d+ drafted \(100%\)", facts)
    seed = page.world.engine.requests[-1].sampling.seed
    assert f"seed {seed}" in facts, "all 64 bits of it"


def test_what_the_server_does(page: Page) -> None:
    page.wait(lambda: page.texts("#state") == ["ready"], "the state")
    page.wait(lambda: page.texts("#server dd"), "the lanes")
    shown = dict(zip(page.texts("#server dt"), page.texts("#server dd"), strict=True))
    assert shown == {"Lanes busy": "0 of 2", "Waiting": "0", "Rounds": "100", "Tokens a round": "2.50"}
    assert "150 of 200 (75%)" in page.texts("#drafts")[0]
    assert "1.00 GiB of 4.00 GiB" in page.texts("#drafts")[0]
    assert dict(zip(page.texts("#ledger dt"), page.texts("#ledger dd"), strict=True)) == {"Streams": "1.00 GiB"}


def test_a_chat_goes_on_and_begins_anew(page: Page) -> None:
    page.says("Hello, world!")
    page.press("one", ENTER)
    page.wait_done(1)
    page.press("two", ENTER)
    page.wait_done(2)
    prompt = page.world.served.text.decode(page.world.engine.requests[-1].prompt)
    assert prompt.count("<|im_start|>") == 4
    assert "one" in prompt
    assert "Hello, world!" in prompt
    page.browser.find_element("id", "new").click()
    assert page.texts(".turn") == []
    page.press("three", ENTER)
    page.wait_done(1)
    assert "one" not in page.world.served.text.decode(page.world.engine.requests[-1].prompt)


def test_a_new_chat_while_a_reply_comes(page: Page) -> None:
    page.says("hello " * 200, sources=SOURCES, pause=0.1)
    page.press("one", ENTER)
    page.wait(lambda: page.texts(".assistant .kept"), "the first draft")
    page.browser.find_element("id", "new").click()
    assert page.world.engine.wait_idle(), "the server is told"
    page.says("Hello, world!")
    page.press("two", ENTER)
    page.wait_done()
    assert page.texts(".user .text") == ["two"]
    assert "one" not in page.world.served.text.decode(page.world.engine.requests[-1].prompt)


def test_stopped_before_the_first_token(page: Page) -> None:
    page.says("hello", queued=30)
    page.press("one", ENTER)
    page.wait(lambda: page.world.engine.running, "the request")
    page.press(ESCAPE)
    page.wait(lambda: page.texts(".turn") == [], "the end of it")
    assert page.browser.find_element("id", "prompt").get_attribute("value") == "one"
    assert page.world.engine.wait_idle()


def test_only_the_keyboard(page: Page) -> None:
    assert page.focus == "prompt"
    page.press("a", SHIFT + ENTER + RELEASE, "b")
    assert page.browser.find_element("id", "prompt").get_attribute("value") == "a\nb"
    page.says("hello " * 200, sources=SOURCES, pause=0.1)
    page.press(ENTER)
    page.wait(lambda: page.texts(".assistant .kept"), "the first draft")
    page.press(ESCAPE)
    page.wait_done()
    assert page.world.engine.wait_idle(), "the server is told"
    assert page.texts(".facts")[0].endswith("stopped")
    # Everything can be reached, and shows that it was.
    reached = []
    for _ in range(15):
        page.press(TAB)
        reached.append(page.focus)
        outline = page.browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.focus == "", reached
    for control in ("send", "temperature", "max_tokens", "seed", "draft", "key", "new", "log", "prompt"):
        assert control in reached


def test_controls_have_names(page: Page) -> None:
    nameless = page.browser.execute_script(
        "return [...document.querySelectorAll('input, textarea, button')]"
        ".filter(n => !(n.labels && n.labels.length) && !n.textContent.trim()).map(n => n.id)"
    )
    assert nameless == []
    assert page.browser.execute_script("return document.documentElement.lang") == "en"
    assert page.browser.find_element("id", "announce").get_attribute("aria-live") == "polite"
    page.says("Hello, world!")
    page.press("hi", ENTER)
    page.wait(lambda: page.texts("#announce") == ["Hello, world!"], "the announcement")


def test_settings_are_sent(page: Page) -> None:
    for name, value in (("temperature", "0.5"), ("max_tokens", "3"), ("seed", "9007199254740993")):
        page.browser.find_element("id", name).send_keys(value)
    page.browser.find_element("id", "draft").click()
    page.browser.find_element("id", "prompt").send_keys("hi", ENTER)
    page.wait_done()
    request = page.world.engine.requests[-1]
    assert request.sampling.temperature == 0.5
    assert request.max_tokens == 3
    assert request.sampling.seed == 9007199254740993, "not rounded to a double"
    assert not request.draft


def test_a_prompt_past_the_context(page: Page) -> None:
    page.press("word " * 300, ENTER)
    page.wait(lambda: page.texts(".error"), "the error")
    message = page.texts(".error p")[0]
    assert "context is 200 tokens" in message
    assert message.count(".") == 1, "one sentence"
    assert page.texts(".error button") == ["Edit the message"]
    assert page.texts(".turn.user") == []
    prompt = page.browser.find_element("id", "prompt")
    assert prompt.get_attribute("value").startswith("word word"), "nothing that was written is lost"
    prompt.clear()
    prompt.send_keys("hi", ENTER)
    page.wait_done()
    assert page.texts(".error") == []


def test_a_failure_midway(page: Page) -> None:
    page.says(SAYS, fail_after=4)
    page.press("hi", ENTER)
    page.wait(lambda: page.texts(".error p"), "the error")
    assert page.texts(".error p") == ["The forward failed."]
    page.says(SAYS)
    page.browser.find_element("css selector", ".error button").click()
    page.wait_done()
    assert page.texts(".assistant .text") == ["", SAYS]


def test_a_server_that_is_gone(page: Page) -> None:
    page.world.server.stop()
    page.world.thread.join(20)
    page.press("hi", ENTER)
    page.wait(lambda: page.texts(".error p"), "the error")
    assert "cannot be reached" in page.texts(".error p")[0]


def test_text_is_never_markup(page: Page) -> None:
    said = "<img src=x onerror=\"document.title='owned'\"><b>bold</b>&amp;"
    page.says(said, sources=SOURCES)
    page.press(said, ENTER)
    page.wait_done()
    assert page.texts(".user .text") == [said]
    assert "".join(page.texts(".assistant .text")) == said
    assert page.texts("#log img, #log b") == []
    assert page.browser.title != "owned"


def test_a_key_is_asked_for_and_kept_for_the_tab_only(
    browser: Any, make_world: Callable[..., World], text: Text
) -> None:
    page = Page(browser, make_world(settings=ServerSettings(api_key="sésame✓"), engine=BusyEngine()), text)
    page.says("Hello, world!")
    page.wait(lambda: page.focus == "ask-key", "the question")
    page.press("wrong", ENTER)
    page.wait(lambda: "did not accept" in page.texts("#ask-why")[0] and page.focus == "ask-key", "the second question")
    page.press("sésame✓", ENTER)
    page.wait(lambda: page.texts("#model") == ["tiny"], "the model's name")
    page.wait(lambda: page.focus == "prompt", "the focus")
    page.press("hi", ENTER)
    page.wait_done()
    stored = browser.execute_script("return [Object.values(sessionStorage), localStorage.length, document.cookie]")
    assert stored == [["sésame✓"], 0, ""]


def test_nothing_is_blocked_or_logged(page: Page) -> None:
    page.browser.get_log("browser")
    page.press("hi", ENTER)
    page.wait_done()
    assert page.browser.get_log("browser") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_both_themes_and_widths(page: Page, theme: str, width: int) -> None:
    browser = page.browser
    size = {"width": width, "height": 780, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        page.press("hi " * 40, ENTER)
        page.wait_done()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, "nothing sticks out"
        pairs = browser.execute_script(
            "return [...document.querySelectorAll('.assistant .kept, .facts, .user .text, .who, #keys, #state, h1')]"
            ".map(n => { let b = n, c; do { c = getComputedStyle(b).backgroundColor; b = b.parentElement }"
            " while (b && c === 'rgba(0, 0, 0, 0)'); return [getComputedStyle(n).color, c] })"
        )
        assert all(contrast(*pair) >= 4.5 for pair in pairs), pairs
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (luminance(ground) > 0.5) == (theme == "light")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(colour: str) -> float:
    """WCAG's relative luminance."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(text: str, ground: str) -> float:
    """WCAG's contrast of two colours."""
    low, high = sorted((luminance(text), luminance(ground)))
    return (high + 0.05) / (low + 0.05)

"""Every recipe is a page and a settings file that loads; units and property lists are whole."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks, links
from tf_host.plugins import parsed_settings
from tf_host.settings import ServerSettings, load
from tf_llama.roles import drafter_for, roles_of

FOLDER = DOCS / "recipes"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "README.md")
FILES = sorted(FOLDER.glob("*.toml"))
DEMO = ((576, 30, 1_536, 9, 3, 64), 49_152)
"""Shape and vocabulary of the demo's target, by which it is known; the others are known by their names on the hub."""


def stem(path: Path) -> str:
    return path.stem


def settings_of(file: Path) -> ServerSettings:
    return load(["--settings", str(file)]).settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in ServerSettings.model_fields:
        monkeypatch.delenv(f"TF_{field.upper()}", raising=False)


def test_each_page_has_its_settings_file_and_the_other_way_round() -> None:
    # `path.stem` stops at the first dot from the right, and model names have dots.
    assert [page.name.removesuffix(".md") for page in PAGES] == [file.name.removesuffix(".toml") for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=stem)
def test_a_settings_file_loads(file: Path) -> None:
    settings = settings_of(file)
    assert parsed_settings(settings).keys() <= set(settings.plugins)
    assert settings.family == "llama"
    assert settings.drafter is not None


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_a_page_links_its_settings_file_and_says_whether_it_was_run(page: Path) -> None:
    assert page.name.removesuffix(".md") + ".toml" in links(page)
    assert re.search(r"^Status: .*\b(run|tested|checked)\b", page.read_text(), re.M)
    assert page.name in links(FOLDER / "README.md")


@pytest.mark.parametrize("file", FILES, ids=stem)
def test_a_recipe_names_a_pair_that_may_be_served(file: Path) -> None:
    settings = settings_of(file)
    assert "target" in roles_of(settings.model, *DEMO)
    drafter = settings.drafter or drafter_for(settings.model, *DEMO)
    assert drafter
    assert "drafter" in roles_of(drafter, *DEMO)
    assert drafter == drafter_for(settings.model, *DEMO), "a bare --drafter would take another"


@pytest.mark.parametrize("page", PAGES, ids=stem)
def test_commands_on_a_page_are_ours(page: Path) -> None:
    commands = re.findall(r"^    (?:TF_\w+=\S+ |CUDA_\w+=\S+ )*(tf-serve .*?)(?: {2,}#.*)?$", page.read_text(), re.M)
    for command in commands:
        words = shlex.split(command)[1:]
        words = [str(ROOT / word) if word.startswith("docs/") else word for word in words]
        assert load(words).action == "serve"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "nginx")], ids=stem)
def test_a_proxy_passes_the_name_on_that_the_browser_has(page: Path) -> None:
    (configuration,) = blocks(page, "nginx")
    assert configuration.text.count("proxy_set_header Host $http_host;") == configuration.text.count("proxy_pass ")
    assert settings_of(FOLDER / f"{page.stem}.toml").api_key_file, "pages of a host name need a key"


def test_numbers_of_the_original_system_are_marked() -> None:
    text = (FOLDER / "nanbeige-4.3-33b-with-4.1-3b.md").read_text()
    assert "**The speeds below are the original system's, not ours**" in text
    assert "| the original system, tokens a second | with the drafter | without |" in text


def test_the_unit_starts_the_settings_that_its_page_installs() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign, assignment]  # keys keep their case
    unit.read(FOLDER / "tf-serve.service")
    service, page = unit["Service"], (FOLDER / "systemd.md").read_text()
    program, *words = shlex.split(service["ExecStart"])
    assert words == ["--settings", "/etc/tf-serve/serve.toml"]
    assert f"docs/recipes/systemd.toml {words[1]}" in page
    assert program.removesuffix("/bin/tf-serve") in page
    settings = settings_of(FOLDER / "systemd.toml")
    assert int(service["TimeoutStopSec"]) > settings.grace
    assert str(settings.prompt_cache_dir).startswith(f"/var/cache/{service['CacheDirectory']}/")
    assert service["User"] in page


def test_the_property_list_starts_the_settings_that_its_page_installs() -> None:
    name = "org.tf-plugins.tf-serve"
    job = plistlib.loads((FOLDER / f"{name}.plist").read_bytes())
    page = (FOLDER / "launchd.md").read_text()
    program, *words = job["ProgramArguments"]
    assert job["Label"] == name
    assert words == ["--settings", "/opt/tf-serve/etc/serve.toml"]
    assert f"docs/recipes/launchd.toml {words[1]}" in page
    assert f"{program.removesuffix('tf-serve')}pip install" in page
    assert job["ExitTimeOut"] > settings_of(FOLDER / "launchd.toml").grace
    assert job["StandardErrorPath"] in page


def test_a_file_that_does_not_load_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text((FOLDER / "demo.toml").read_text() + "paralel = 2\n")
    with pytest.raises(Exception, match="paralel is no setting"):
        settings_of(wrong)

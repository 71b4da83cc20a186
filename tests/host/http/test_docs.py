"""The reference page names every field and route that there is, and what is not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.host.http.conftest import World
from tf_host.http.chat_body import ChatBody
from tf_host.http.completion_body import CompletionBody
from tf_host.http.errors import _UNSERVED
from tf_host.http.server import Limits
from tf_host.http.unserved import UNSERVED, UNSERVED_IN_MESSAGES

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    cells = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("|")]
    return {name.removeprefix("/v1/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_field_is_in_the_table() -> None:
    documented = rows("Fields of a request")
    assert documented == {*ChatBody.model_fields, *CompletionBody.model_fields}


def test_what_is_not_served_is_in_one_table() -> None:
    documented = {name.partition(":")[0] for name in rows("What is not served")}
    assert documented == {*UNSERVED, *_UNSERVED, *(f"messages[].{name}" for name in UNSERVED_IN_MESSAGES)}


def test_every_route_is_in_the_table(world: World) -> None:
    paths = world.client.get("/openapi.json").json()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    documented = {name.replace("{id}", "{name}") for name in re.findall(r"`((?:GET|POST) [^`]+)`", section("Routes"))}
    assert documented - {"GET /openapi.json", "GET /"} == routes


def test_every_part_of_the_tf_block_is_in_the_table(world: World) -> None:
    reply = world.chat().json()
    documented = rows("Replies")
    assert documented >= set(reply["tf"])
    assert all(f"`{name}`" in section("Replies") for name in reply["tf"]["timings"])


@pytest.mark.parametrize("name", ["header_s", "body_s", "idle_s"])
def test_the_limits_are_those_of_the_security_page(name: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"{getattr(Limits(), name):g}" in page

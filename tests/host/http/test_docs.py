"""The reference page names every field and route that there is, and what is not served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.host.http.conftest import World
from tf_host.http.chat_body import ChatBody
from tf_host.http.completion_body import CompletionBody
from tf_host.http.errors import _UNSERVED
from tf_host.http.grammar_body import HARMLESS
from tf_host.http.protocol import MOST_HEADER_BYTES
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


def test_the_limits_of_a_request_are_in_the_routes() -> None:
    said = section("Routes")
    assert f"{MOST_HEADER_BYTES:,} bytes" in said
    for seconds in (Limits().header_s, Limits().body_s):
        assert f"{seconds:g} seconds" in said


def test_limits_of_numbers_are_in_the_table() -> None:
    numbers = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    values = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section("Fields of a request"), re.MULTILINE))
    for name in numbers:
        field = ChatBody.model_fields[name]
        limits = [getattr(one, kind) for one in field.metadata for kind in ("ge", "gt", "le") if hasattr(one, kind)]
        assert [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", values[name])] == limits, name


def test_options_that_pass_are_named() -> None:
    assert all(f"`{name}`" in section("Fields of a request") for name in HARMLESS)


@pytest.mark.parametrize("name", ["header_s", "body_s", "idle_s"])
def test_the_limits_are_those_of_the_security_page(name: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"{getattr(Limits(), name):g}" in page

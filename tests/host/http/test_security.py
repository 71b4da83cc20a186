"""Keys, origins, and what gets into the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.host.http.conftest import World
from tf_host.http import Keys, warn_if_open
from tf_host.http.errors import refuse
from tf_host.settings import ServerSettings
from tf_plugins import SettingsError


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def locked(make_world: Callable[..., World]) -> World:
    world = make_world(settings=ServerSettings(api_key="open-sesame"))
    world.says("hello")
    return world


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), bearer("open-sesam"), {"Authorization": "open-sesame"}])
def test_without_the_key_nothing_is_served(locked: World, headers: dict[str, Any]) -> None:
    headers = {name: value.encode() for name, value in headers.items()}
    for answer in (
        locked.client.post("/v1/completions", content=b"not even json", headers=headers),
        locked.client.get("/v1/models", headers=headers),
        locked.client.get("/nothing", headers=headers),
    ):
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "this server asks for an API key; send Authorization: Bearer KEY"),
        ({"Authorization": "Bearer"}, "this server asks for an API key; send Authorization: Bearer KEY"),
        ({"Authorization": "Basic eDp5"}, "this server asks for an API key; send Authorization: Bearer KEY"),
        (bearer("wrong"), "the API key is not valid; send one that this server was given"),
    ],
)
def test_a_wrong_key_is_told_from_none(locked: World, headers: dict[str, Any], message: str) -> None:
    answer = locked.client.get("/v1/models", headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (401, message)


def test_a_key_mounted_as_a_file_has_a_line_end(make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(api_key="sesame\n"))
    assert world.client.get("/v1/models", headers=bearer("sesame")).status_code == 200


def test_with_the_key(locked: World) -> None:
    answer = locked.client.post("/v1/completions", json={"prompt": "hi"}, headers=bearer("open-sesame"))
    assert answer.status_code == 200
    assert locked.gate.seen[-1].key == "key 1"
    assert locked.client.get("/v1/models", headers={"Authorization": "bearer open-sesame"}).status_code == 200


@pytest.mark.parametrize("key", ["schlüssel", "voilà"])  # the last byte of à is Latin-1's white space
def test_a_key_may_have_any_letters(make_world: Callable[..., World], key: str) -> None:
    world = make_world(settings=ServerSettings(api_key=key))
    headers = {"Authorization": f"Bearer {key}".encode()}
    assert world.client.get("/v1/models", headers=headers).status_code == 200


def test_health_tells_strangers_the_status_only(locked: World) -> None:
    assert locked.client.get("/health").json() == {"status": "ok"}
    assert "parallel" in locked.client.get("/health", headers=bearer("open-sesame")).json()


def test_a_key_file(make_world: Callable[..., World], key_file: Path) -> None:
    world = make_world(settings=ServerSettings(api_key_file=key_file))

    def status(key: str) -> int:
        return world.client.get("/v1/models", headers=bearer(key)).status_code

    assert (status("first"), status("second"), status("third")) == (200, 200, 401)
    key_file.write_text("# rotated\nthird\n")
    assert (status("first"), status("third")) == (401, 200)


def test_a_key_file_that_goes_bad_changes_nothing(key_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = Keys(file=key_file)
    time.sleep(0.01)
    key_file.write_text("other\n")
    key_file.chmod(0o644)
    assert keys.name_of(b"first") == "key 1"
    assert keys.name_of(b"other") is None
    assert len([record for record in caplog.records if "read by others" in record.message]) == 1
    key_file.chmod(0o600)
    assert keys.name_of(b"other") == "key 1"
    key_file.unlink()
    assert keys.name_of(b"other") == "key 1"
    assert keys.asked_for


def test_a_key_file_may_begin_with_a_byte_order_mark(key_file: Path) -> None:
    key_file.write_bytes(b"\xef\xbb\xbffirst\r\n  # one more\r\nsecond\r\n")
    keys = Keys(file=key_file)
    assert [keys.name_of(key) for key in (b"first", b"second")] == ["key 1", "key 2"]


@pytest.mark.parametrize("line", ["open sesame", "open\tsesame", "open\x00sesame", "sesame # mine"])
def test_a_key_file_with_a_line_that_no_client_can_send_is_refused(key_file: Path, line: str) -> None:
    key_file.write_text(f"first\n{line}\n")
    with pytest.raises(SettingsError) as caught:
        Keys(file=key_file)
    assert f"--api-key-file {key_file} has white space or a control character within the key of line 2" in str(
        caught.value
    )
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_key_file_that_others_can_read_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        Keys(file=key_file)


def test_a_key_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        Keys(file=tmp_path / "missing")
    empty = tmp_path / "empty"
    empty.touch(0o600)
    with pytest.raises(SettingsError, match="holds no key"):
        Keys(file=empty)


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append(known)
        return given == known

    monkeypatch.setattr("hmac.compare_digest", compare)
    assert Keys(["a", "b", "c"]).name_of(b"a") == "key 1"
    assert compared == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("localhost", False), ("::1", False), ("127.8.8.8", False), ("0.0.0.0", True),
     ("::", True), ("192.168.1.2", True), ("example.org", True)],
)  # fmt: skip
def test_listening_past_loopback_without_a_key_is_warned_of(host: str, warned: bool) -> None:
    assert (warn_if_open(host, Keys()) is not None) == warned
    assert warn_if_open(host, Keys(["a"])) is None


def test_other_origins_are_not_allowed(world: World) -> None:
    answer = world.client.get("/health", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


OWN = "the server's own"


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, None, 200),
        ("https://evil.example", None, 403),
        ("http://evil.example:8080", "evil.example:8080", OWN),  # a name that points here
        ("null", None, 403),
        ("http://[", None, 403),
        ("http://localhost:3000", None, 200),
        ("http://127.0.0.1:8080", None, 200),
        ("http://192.168.1.2:8080", "192.168.1.2:8080", 200),
        ("http://192.168.1.9", "192.168.1.2:8080", 403),
        ("https://good.example", None, 200),
    ],
)
def test_pages_from_elsewhere_may_not_use_the_server(
    make_world: Callable[..., World], origin: str | None, host: str | None, status: Any, keyed: bool
) -> None:
    settings = ServerSettings(cors=("https://good.example",), api_key="k" if keyed else None)
    world = make_world(settings=settings)
    world.says("hello")
    headers = bearer("k") | {name: value for name, value in (("Origin", origin), ("Host", host)) if value}
    answer = world.client.post("/v1/completions", json={"prompt": "hi"}, headers=headers)
    # With a key, a page of the same name has been given the key by its user.
    assert answer.status_code == ((200 if keyed else 403) if status == OWN else status)


def test_origins_of_the_settings_are(make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(cors=("https://good.example",), api_key="k"))
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    good = world.client.options("/v1/completions", headers={"Origin": "https://good.example"} | ask)
    assert good.headers["access-control-allow-origin"] == "https://good.example"
    assert good.status_code == 200  # before the key: browsers send none here
    evil = world.client.options("/v1/completions", headers={"Origin": "https://evil.example"} | ask)
    assert "access-control-allow-origin" not in evil.headers
    assert (evil.status_code, evil.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert "--cors ORIGIN" in evil.json()["error"]["message"]
    more = {"Access-Control-Request-Method": "DELETE"}
    much = world.client.options("/v1/completions", headers={"Origin": "https://good.example"} | ask | more)
    assert much.headers["access-control-allow-origin"] == "https://good.example"
    assert (much.status_code, much.json()["error"]["code"]) == (400, "cors_not_allowed")
    assert "GET, POST" in much.json()["error"]["message"]
    private = {"Origin": "https://good.example", "Access-Control-Request-Private-Network": "true"}
    said = world.client.options("/v1/completions", headers=private | ask).json()["error"]["message"]
    assert said == "a page of a public address may not reach a server on a private one; serve it from that network"


STAINLESS = "authorization,content-type,user-agent,x-stainless-arch,x-stainless-lang,x-stainless-retry-count"


@pytest.mark.parametrize("allowed", ["https://good.example", "*"])
def test_clients_in_a_browser_may_send_and_read_what_they_do(make_world: Callable[..., World], allowed: str) -> None:
    """OpenAI's own adds headers to each request, and reads when to try again."""
    world = make_world(settings=ServerSettings(cors=(allowed,), api_key="k"))
    origin = {"Origin": "https://good.example"}
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": STAINLESS}
    before = world.client.options("/v1/chat/completions", headers=origin | ask)
    assert before.status_code == 200
    assert before.headers["access-control-allow-headers"] == STAINLESS
    world.engine.refuse = refuse("queue_full", "the queue is full", status=503)
    full = world.client.post("/v1/completions", json={"prompt": "hi"}, headers=origin | bearer("k"))
    assert full.status_code == 503
    assert full.headers["access-control-allow-origin"] == allowed
    exposed = full.headers["access-control-expose-headers"].lower().split(", ")
    assert "retry-after" in exposed
    assert "retry-after" in full.headers


def test_nothing_of_a_request_reaches_the_log_unescaped(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b[31m\nINFO: forged line\r\u202e"
    caplog.set_level(logging.DEBUG)
    world.chat(evil, model=evil, user=evil)
    world.chat(evil, user=evil, stop=[evil])
    world.client.post("/v1/completions", content=evil.encode(), headers={"Content-Type": "application/json"})
    world.client.get(f"/v1/models/{evil.encode().hex()}%0Aforged%1b")

    def broken(*_: Any) -> None:
        raise ValueError(evil)

    monkeypatch.setattr("tf_host.http.routes.prepare_chat", broken)
    assert world.chat(evil).status_code == 500
    ours = [record for record in caplog.records if record.name.startswith(("tf_host", "uvicorn"))]
    lines = [line for record in ours for line in record.getMessage().split("\n")]
    assert any("ValueError" in line and "forged" in line for line in lines)
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert not any(line.startswith("INFO") for line in lines)
    assert all(record.exc_info is None for record in ours)

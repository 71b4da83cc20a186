"""The nginx configurations of the recipes, in front of servers that answer from a script."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import DOCS, blocks
from tests.host.http.conftest import World
from tf_host.http.errors import refuse
from tf_host.settings import ServerSettings

NGINX = shutil.which("nginx")
pytestmark = pytest.mark.skipif(not (NGINX and shutil.which("openssl")), reason="needs nginx and openssl")

Behind = Callable[..., httpx.Client]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    """Runs a recipe's nginx in front of servers by their ports in the recipe; a client of it."""
    running: list[subprocess.Popen[bytes]] = []
    clients: list[httpx.Client] = []

    def start(recipe: str, name: str, **servers: World) -> httpx.Client:
        (block,) = blocks(DOCS / "recipes" / f"{recipe}.md", "nginx")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        text = re.sub(r"listen \d+", f"listen 127.0.0.1:{port}", block.text)
        for theirs, world in servers.items():
            text = text.replace(f"127.0.0.1:{theirs.removeprefix('at_')}", f"127.0.0.1:{world.port}")
        certificate, key = make_certificate(tmp_path, name)
        text = text.replace("/etc/ssl/llm.pem", str(certificate)).replace("/etc/ssl/llm.key", str(key))
        temporary = "\n".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi"))
        temporary += f"\nuwsgi_temp_path {tmp_path}/uwsgi; scgi_temp_path {tmp_path}/scgi; access_log off;"
        file = tmp_path / "nginx.conf"
        file.write_text(
            f"daemon off; master_process off; worker_processes 1; pid {tmp_path}/pid; events {{}}\n"
            f"http {{\n{temporary}\n{text}\n}}\n"
        )
        running.append(subprocess.Popen([str(NGINX), "-e", f"{tmp_path}/log", "-c", str(file)]))
        wait_for(port, running[-1], tmp_path / "log")
        secure = "ssl_certificate" in text
        client = httpx.Client(
            base_url=f"{'https' if secure else 'http'}://127.0.0.1:{port}",
            headers={"Host": name, "Origin": f"{'https' if secure else 'http'}://{name}"},  # as a browser of that page
            verify=ssl.create_default_context(cafile=str(certificate)) if secure else False,
            timeout=20,
        )
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()
    for process in running:
        process.terminate()
        process.wait(10)


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    certificate, key = folder / "llm.pem", folder / "llm.key"
    asked = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*command, *asked], check=True, capture_output=True)
    return certificate, key


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"nginx did not start: {log.read_text()}")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_the_page_behind_tls_and_keys(behind: Behind, make_world: Callable[..., World]) -> None:
    world = make_world(settings=ServerSettings(api_key="k"))
    world.says("hello")
    client = behind("reverse-proxy-with-keys", "llm.example.org", at_8080=world)
    assert client.get("/").text.startswith("<!doctype html>")
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    streamed = client.post("/v1/chat/completions", json=body, headers=bearer("k"))
    assert (streamed.status_code, streamed.text.endswith("data: [DONE]\n\n")) == (200, True), streamed.text
    assert client.post("/v1/chat/completions", json=body, headers=bearer("wrong")).status_code == 401
    other = bearer("k") | {"Origin": "https://evil.example"}
    assert client.post("/v1/chat/completions", json=body, headers=other).status_code == 403


def test_the_page_in_front_of_replicas(behind: Behind, make_world: Callable[..., World]) -> None:
    one, two = (make_world(settings=ServerSettings(api_key="k")) for _ in range(2))
    for world in (one, two):
        world.says("hello")
    client = behind("replicas-behind-nginx", "llm.example.org:8080", at_8081=one, at_8082=two)

    def ask() -> int:
        return client.post("/v1/completions", json={"prompt": "hi"}, headers=bearer("k")).status_code

    assert [ask(), ask()] == [200, 200]
    mine, other = sorted((one, two), key=lambda world: -len(world.engine.requests))
    assert [len(world.engine.requests) for world in (mine, other)] == [2, 0], "a client stays with its replica"

    mine.engine.refuse = refuse("queue_full", "the queue is full", status=503)
    assert ask() == 200
    assert len(other.engine.requests) == 1
    mine.engine.refuse = None
    assert ask() == 200
    assert len(mine.engine.requests) == 3, "one full queue does not put a replica aside"

    mine.engine.refuse = other.engine.refuse = refuse("queue_full", "the queue is full", status=503)
    assert [ask(), ask()] == [503, 503]

"""The listening socket."""

from __future__ import annotations

import errno
import socket

import pytest

from tf_host.cli.port import reserve_socket
from tf_plugins import Refused


def said(host: str, port: int) -> str:
    with pytest.raises(Refused) as caught:
        reserve_socket(host, port)
    return str(caught.value)


def test_a_free_port_listens_at_once() -> None:
    with reserve_socket("127.0.0.1", 0) as listening:
        address = listening.getsockname()
        with socket.create_connection(address, timeout=5) as client, listening.accept()[0] as served:
            client.sendall(b"x")
            assert served.recv(1) == b"x"


def test_a_name_is_an_address_too() -> None:
    with reserve_socket("localhost", 0) as listening:
        assert listening.getsockname()[1] > 0


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_what_can_be_no_name(host: str) -> None:
    assert said(host, 0).startswith(f"--host {host} is no address that this machine knows")


def test_a_kind_of_address_that_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", none)
    assert "--host ::1 --port 0 cannot be listened on: Address family" in said("::1", 0)


def test_a_port_in_use() -> None:
    with reserve_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert said("127.0.0.1", port) == (
            f"--port {port} is in use on 127.0.0.1\n"
            "hint: stop what listens there, or name another port; 0 takes a free one"
        )


def test_a_port_that_was_just_left_is_free() -> None:
    first = reserve_socket("127.0.0.1", 0)
    port = first.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        served = first.accept()[0]
        served.close()  # the server's side closes first and waits
    first.close()
    reserve_socket("127.0.0.1", port).close()


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("192.0.2.1", "--host 192.0.2.1 is not an address of this machine"),
        ("no.such.host.invalid", "--host no.such.host.invalid is no address that this machine knows"),
    ],
)
def test_an_address_of_another_machine(host: str, reason: str) -> None:
    assert said(host, 0) == f"{reason}\nhint: use 127.0.0.1, or 0.0.0.0 for all"

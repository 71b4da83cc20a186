"""The listening socket, taken before anything loads."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

from tf_plugins import Refused
from tf_plugins.types import Refusal

_BACKLOG = 2048


def reserve_socket(host: str, port: int) -> socket.socket:
    """A bound, listening socket; port 0 takes a free one.

    Raises:
        Refused: the port is in use or not allowed, or the address is not this machine's.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:  # the latter for a name that is none
        raise _refused(
            f"--host {host} is no address that this machine knows", "use 127.0.0.1, or 0.0.0.0 for all", "--host"
        ) from error
    family, kind, protocol, _, address = found[0]
    with ExitStack() as on_failure:
        try:
            listening = on_failure.enter_context(socket.socket(family, kind, protocol))
            # A server that just ended leaves its port waiting; another that listens still refuses it.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            raise _cannot(host, port, error) from error
        on_failure.pop_all()
    listening.set_inheritable(False)
    return listening


def _cannot(host: str, port: int, error: OSError) -> Refused:
    if error.errno == errno.EADDRINUSE:
        return _refused(
            f"--port {port} is in use on {host}",
            "stop what listens there, or name another port; 0 takes a free one",
            "--port",
        )
    if error.errno == errno.EACCES:
        return _refused(f"--port {port} is not allowed for this user", "take a port from 1024 up", "--port")
    if error.errno == errno.EADDRNOTAVAIL:
        return _refused(
            f"--host {host} is not an address of this machine", "use 127.0.0.1, or 0.0.0.0 for all", "--host"
        )
    return _refused(f"--host {host} --port {port} cannot be listened on: {error.strerror}", "name others", "--port")


def _refused(reason: str, hint: str, param: str) -> Refused:
    return Refused(Refusal("address", reason, hint, param=param))

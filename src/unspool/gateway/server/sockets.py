"""Listening sockets and their options."""

from __future__ import annotations

import socket
from typing import Final

from ...errors import UsageError
from ..settings import Settings

_ACCEPTORS: Final = 16
"""Number of sockets through which one event loop accepts connections to the same listener."""
_BACKLOG: Final = 2048
"""Maximum number of connections that wait to be accepted."""
_SEND_BUFFER: Final = 1 << 18
"""Bytes that the system buffers for a client that does not read; the default is several megabytes."""


def bind(settings: Settings) -> socket.socket:
    """Return a socket that is bound to the configured address.

    Call this function before loading a model, so that a port that is already in use is reported early.
    """
    listener = _create(settings)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            "set port to another number, or to 0 for any free port"
        ) from error
    return listener


def bind_shared(settings: Settings) -> list[socket.socket]:
    """Return a listening socket for each worker, all on one port."""
    # A socket with SO_REUSEPORT could silently share a port that another program uses, so bind an ordinary
    # socket first, which fails if the port is in use.
    with bind(settings) as probe:
        address = probe.getsockname()
    listeners = []
    for _ in range(settings.workers):
        listener = _create(settings)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listeners.append(listener)
    return listeners


def duplicate(listener: socket.socket) -> list[socket.socket]:
    """Return several sockets for the same listener.

    In each iteration of the event loop, uvloop accepts one connection per socket.  With a single socket,
    a burst of connections would need one iteration per connection.
    """
    return [listener, *(listener.dup() for _ in range(_ACCEPTORS - 1))]


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _create(settings: Settings) -> socket.socket:
    """Return a socket with the options that accepted connections inherit from it.

    TCP keep-alive detects dead clients, and a small send buffer limits the memory for clients
    that do not read.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listener

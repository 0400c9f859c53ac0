"""Listening sockets and their options."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, Self

from ...errors import UsageError
from ..settings import Settings

_ACCEPTORS: Final = 16
"""Number of sockets through which one event loop accepts connections to the same listener."""
_BACKLOG: Final = 2048
"""Maximum number of connections that wait to be accepted."""
_SEND_BUFFER: Final = 1 << 18
"""Bytes that the system buffers for a client that does not read; the default is several megabytes."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Listening sockets of one process; a context manager that closes them."""

    clients: socket.socket
    """Socket for clients of the APIs."""
    metrics: socket.socket | None
    """Socket for requests without API keys to ``/metrics``; None if ``metrics_port`` is 0."""

    @classmethod
    def bind(cls, settings: Settings) -> Self:
        """Return sockets that are bound to the configured addresses."""
        clients = bind(settings)
        if not settings.metrics_port:
            return cls(clients, None)
        try:
            return cls(clients, _bind_metrics(settings))
        except BaseException:
            clients.close()
            raise

    def listen(self) -> None:
        """Accept connections; the system queues them until the servers have started."""
        self.clients.listen()
        if self.metrics is not None:
            self.metrics.listen()

    def close(self) -> None:
        """Close all sockets."""
        self.clients.close()
        if self.metrics is not None:
            self.metrics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bind(settings: Settings, name: str = "port") -> socket.socket:
    """Return a socket that is bound to the configured address.

    Call this function before loading a model, so that a port that is already in use is reported early.
    :param name: the setting that contains the port, for error messages.
    """
    listener = _create(settings)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            + (
                "set port to another number, or to 0 for any free port"
                if name == "port"
                else f"set {name} to another number"
            )
        ) from error
    return listener


def _bind_metrics(settings: Settings) -> socket.socket:
    return bind(replace(settings, port=settings.metrics_port, metrics_port=0), "metrics_port")


def bind_shared(settings: Settings) -> list[Listeners]:
    """Return listening sockets for each worker; the workers share the ports."""
    # A socket with SO_REUSEPORT could silently share a port that another program uses, so bind ordinary
    # sockets first, which fails if a port is in use.
    with Listeners.bind(settings) as probe:
        address = probe.clients.getsockname()
        metrics_address = None if probe.metrics is None else probe.metrics.getsockname()
    with ExitStack() as stack:
        listeners = []
        for _ in range(settings.workers):
            clients = stack.enter_context(_listen_shared(settings, address))
            metrics = None
            if metrics_address is not None:
                metrics = stack.enter_context(_listen_shared(settings, metrics_address))
            listeners.append(Listeners(clients, metrics))
        stack.pop_all()
        return listeners


def _listen_shared(settings: Settings, address: object) -> socket.socket:
    """Return a socket that listens on an address that other sockets of this gateway also use."""
    listener = _create(settings)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)  # type: ignore[arg-type]
    listener.listen(_BACKLOG)
    return listener


def duplicate(listener: socket.socket) -> list[socket.socket]:
    """Return several sockets for the same listener.

    In each iteration of the event loop, uvloop accepts one connection per socket.  With a single socket,
    a burst of connections would need one iteration per connection.
    """
    return [listener, *(listener.dup() for _ in range(_ACCEPTORS - 1))]


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def metrics_url(listeners: Listeners) -> str:
    """Return the URL of the metrics that need no API key, or ``off``."""
    return "off" if listeners.metrics is None else f"{url_of(listeners.metrics)}/metrics"


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

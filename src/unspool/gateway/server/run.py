"""Running a gateway: uvicorn, signals, the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

import uvicorn

from ...errors import UsageError
from ..app import Gateway
from ..factory import build
from ..settings import Settings
from ..telemetry.logs import log, set_up
from .http_protocol import ConnectionLimits, GatewayProtocol
from .worker_link import WorkerLink
from .workers import supervise

_EARS: Final = 16
_SEND_BUFFER: Final = 1 << 18
"""Bytes that the system takes for a client ahead of its reading; by itself it would take megabytes."""


def serve(settings: Settings, *, reload: Callable[[], Settings] | None = None) -> int:
    """Serve until told to stop; the result is the exit code.

    :param reload: the settings as they are when workers are to be started anew.
    """
    set_up(settings)
    if settings.workers > 1:
        return supervise(settings, _work, reload)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _built(settings: Settings) -> Gateway:
    """A gateway that stays: what it is made of is not looked through for garbage while streams wait."""
    gateway = await build(settings)
    gc.collect()
    gc.freeze()
    return gateway


async def _serve(settings: Settings) -> int:
    with bind(settings) as listener:
        gateway = await _built(settings)
        log(
            logging.INFO,
            "listening",
            url=address(listener),
            page=f"{address(listener)}/" if settings.page else "off",
            model=gateway.model.name,
            dialect=gateway.model.family,
            settings=settings.shown(),
        )
        if not await gateway.upstream.ready():
            log(logging.WARNING, "the upstream does not answer yet", url=settings.url)
        await make_server(gateway).serve(ears(listener))
    return 0


def _work(settings: Settings, listener: socket.socket, line: socket.socket) -> int:
    """Be one of several workers."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve_as_worker(settings, listener, line))


class _WorkerServer(uvicorn.Server):
    """A server that leaves signals alone: when it has finished, there is still something to report."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def _serve_as_worker(settings: Settings, listener: socket.socket, line: socket.socket) -> int:
    gateway = await _built(settings)
    server = make_server(gateway, _WorkerServer)

    def finish() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, finish)
    link = WorkerLink(line, gateway.metrics, finish)
    gateway.status.read_other_workers = link.read_others
    await link.start()
    serving = asyncio.create_task(server.serve(ears(listener)))
    while not server.started and not serving.done():  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    link.report_serving()
    try:
        await serving
    finally:
        await link.stop()
    return 0


def bind(settings: Settings) -> socket.socket:
    """The socket to listen on; before anything is loaded, because a port may be taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    set_limits(listener)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            "set port to another one, 0 for any that is free"
        ) from error
    return listener


def ears(listener: socket.socket) -> list[socket.socket]:
    """The same socket several times, because uvloop takes one connection from each at a turn of its loop.

    While it turns slowly, a crowd at the door would keep everybody behind it waiting for as many turns.
    """
    return [listener, *(listener.dup() for _ in range(_EARS - 1))]


def set_limits(listener: socket.socket) -> None:
    """Let the system ask silent clients whether they live, and keep little for those that do not read.

    Connections take this from their listener.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def address(listener: socket.socket) -> str:
    """Where clients find it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(gateway: Gateway, kind: type[uvicorn.Server] = uvicorn.Server) -> uvicorn.Server:
    """The server of a gateway."""
    door = ConnectionLimits(gateway.settings, gateway.metrics.connections_refused.add)
    config = uvicorn.Config(
        gateway.app,
        http=cast("type[asyncio.Protocol]", partial(GatewayProtocol, door)),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=gateway.settings.keep_alive_timeout,  # type: ignore[arg-type]
        timeout_graceful_shutdown=gateway.settings.shutdown_timeout,
    )
    return kind(config)

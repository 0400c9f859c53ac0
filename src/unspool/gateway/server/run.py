"""Entry point of the server: uvicorn in one process, or in several workers."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn

from ..app import Gateway
from ..build_from_settings import build
from ..settings import Settings
from ..telemetry.logs import log, set_up
from .connection_limits import ConnectionLimits, GatewayProtocol
from .sockets import bind, duplicate, url_of
from .supervisor import supervise
from .worker_link import WorkerLink


def serve(settings: Settings, *, reload: Callable[[], Settings] | None = None) -> int:
    """Serve until a signal stops the process; return the exit code.

    :param reload: function that reads the settings again, for ``SIGHUP``.
    """
    set_up(settings)
    if settings.workers > 1:
        return supervise(settings, _run_worker, reload)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop factory, or None if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _build_and_freeze(settings: Settings) -> Gateway:
    """Build a gateway, and exclude its objects from garbage collection so that collections are short."""
    gateway = await build(settings)
    gc.collect()
    gc.freeze()
    return gateway


async def _serve(settings: Settings) -> int:
    with bind(settings) as listener:
        gateway = await _build_and_freeze(settings)
        listener.listen()  # from now on, clients can connect; so do this before logging "listening"
        url = url_of(listener)
        log(
            logging.INFO,
            "listening",
            url=url,
            page=f"{url}/" if settings.serves_page else "off",
            model=gateway.model.name,
            dialect=gateway.model.family,
            settings=settings.shown(),
        )
        if not await gateway.upstream.ready():
            log(logging.WARNING, "upstream_not_ready", url=settings.url)
        await make_server(gateway).serve(duplicate(listener))
    return 0


def _run_worker(settings: Settings, listener: socket.socket, link: socket.socket) -> int:
    """Serve as one of several workers; return the exit code."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve_as_worker(settings, listener, link))


class _WorkerServer(uvicorn.Server):
    """Server without signal handlers of its own.

    The worker handles signals, because it must send a last report after the server has stopped.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def _serve_as_worker(settings: Settings, listener: socket.socket, link_socket: socket.socket) -> int:
    gateway = await _build_and_freeze(settings)
    server = make_server(gateway, _WorkerServer)

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    link = WorkerLink(link_socket, gateway.metrics, on_lost=stop)
    gateway.status.read_other_workers = link.read_others
    await link.start()
    serving = asyncio.create_task(server.serve(duplicate(listener)))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for this
        await asyncio.sleep(0.01)
    link.report_serving()
    try:
        await serving
    finally:
        await link.stop()
    return 0


def make_server(gateway: Gateway, server_type: type[uvicorn.Server] = uvicorn.Server) -> uvicorn.Server:
    """Return a uvicorn server for a gateway."""
    limits = ConnectionLimits(gateway.settings, gateway.metrics.connections_refused.add)
    config = uvicorn.Config(
        gateway.app,
        http=cast("type[asyncio.Protocol]", partial(GatewayProtocol, limits)),
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
    return server_type(config)

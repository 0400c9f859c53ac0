"""Entry point of the server: uvicorn in one process, or in several workers."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, Literal, cast

import uvicorn
from starlette.types import ASGIApp

from ..app import Gateway
from ..build_from_settings import build
from ..settings import Settings
from ..telemetry.logs import log, set_up, warn_about_variables
from .connection_limits import ConnectionLimits, GatewayProtocol
from .reloadable import Reload, ReloadableGateway
from .sockets import Listeners, duplicate, metrics_url, url_of
from .supervisor import OnListening, supervise
from .tls import check_certificate, load_certificate
from .worker_link import WorkerLink

_METRICS_CONNECTIONS: Final = 64
"""Maximum number of connections to the port for metrics, in addition to those of clients."""


def serve(
    settings: Settings, *, reload: Reload | None = None, on_listening: OnListening = lambda _: None
) -> int:
    """Serve until a signal stops the process; return the exit code.

    :param reload: function that reads the settings again, for ``SIGHUP``; without it, the signal is ignored.
    :param on_listening: called with the gateway's URL as soon as clients can connect.
    """
    set_up(settings)
    warn_about_variables(os.environ)
    if settings.workers > 1:
        return supervise(settings, _run_worker, reload, on_listening)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, reload, on_listening))


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


async def _serve(settings: Settings, reload: Reload | None, on_listening: OnListening) -> int:
    if not settings.seal_key:
        # After a reload, the gateway must be able to decrypt the reasoning that it has encrypted before.
        settings, shown = replace(settings, seal_key=secrets.token_hex(32)), settings.shown()
    else:
        shown = settings.shown()
    check_certificate(settings)
    on_sighup = _SighupHandler(reload)
    with Listeners.bind(settings) as listeners:
        gateway = await _build_and_freeze(settings)
        listeners.listen()  # from now on, clients can connect; so do this before logging "listening"
        url = url_of(listeners.clients, settings.scheme)
        on_listening(url)
        log(
            logging.INFO,
            "listening",
            url=url,
            page=f"{url}/" if settings.serves_page else "off",
            metrics=metrics_url(listeners),
            model=gateway.model.name,
            dialect=gateway.model.family,
            settings=shown,
        )
        if not await gateway.upstream.ready():
            log(logging.WARNING, "upstream_not_ready", url=settings.url)
        servers = Servers(gateway)
        on_sighup.app = servers.app
        await servers.serve(listeners)
    return 0


class _SighupHandler:
    """Handler that reloads the settings on ``SIGHUP``; it is installed before the gateway is built.

    Without a handler, the signal would end the process.
    """

    def __init__(self, reload: Reload | None) -> None:
        self._reload = reload
        self.app: ReloadableGateway | None = None
        """The application; None until it has been built."""
        if hasattr(signal, "SIGHUP"):  # Windows has no such signal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._handle)

    def _handle(self) -> None:
        if self.app is None:
            log(logging.WARNING, "reload_ignored", reason="the gateway is still starting")
        elif self._reload is None:
            log(logging.WARNING, "reload_ignored", reason="the program that runs the gateway cannot reload")
        else:
            self.app.start_reload(self._reload)


def _run_worker(settings: Settings, listeners: Listeners, link: socket.socket) -> int:
    """Serve as one of several workers; return the exit code."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve_as_worker(settings, listeners, link))


class _QuietServer(uvicorn.Server):
    """Server without signal handlers of its own.

    A worker handles signals itself, because it must send a last report after the server has stopped.  The
    server for metrics stops after the server for clients.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def _serve_as_worker(settings: Settings, listeners: Listeners, link_socket: socket.socket) -> int:
    gateway = await _build_and_freeze(settings)
    servers = Servers(gateway, _QuietServer)
    server = servers.clients

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    link = WorkerLink(link_socket, gateway.metrics, on_lost=stop)
    gateway.status.read_other_workers = link.read_others
    await link.start()
    serving = asyncio.create_task(servers.serve(listeners))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for this
        await asyncio.sleep(0.01)
    link.report_serving()
    try:
        await serving
    finally:
        await link.stop()
    return 0


class Servers:
    """The server for clients and, if ``metrics_port`` is set, the server for metrics."""

    def __init__(self, gateway: Gateway, server_type: type[uvicorn.Server] = uvicorn.Server) -> None:
        self.app = ReloadableGateway(gateway, self._change)
        settings = gateway.settings
        self._limits = ConnectionLimits(settings, gateway.metrics.connections_refused.add)
        self.clients = _make_server(self.app, settings, self._limits, server_type)
        self._metrics_limits = ConnectionLimits(
            replace(settings, max_connections=_METRICS_CONNECTIONS), gateway.metrics.connections_refused.add
        )
        self._metrics = _make_server(
            self.app.serve_metrics,
            replace(settings, ssl_certfile="", ssl_keyfile=""),
            self._metrics_limits,
            _QuietServer,
            lifespan="off",
        )

    async def serve(self, listeners: Listeners) -> None:
        """Serve until a signal or ``should_exit`` of the server for clients; then finish all streams."""
        metrics = None
        if listeners.metrics is not None:
            metrics = asyncio.create_task(self._metrics.serve([listeners.metrics]))
        try:
            await self.clients.serve(duplicate(listeners.clients))
        finally:
            if metrics is not None:
                self._metrics.should_exit = True
                await metrics

    def _change(self, settings: Settings) -> None:
        """Change the limits on connections and the certificate after a reload."""
        if self.clients.config.ssl is not None:
            load_certificate(self.clients.config.ssl, settings)
        self._limits.change(settings)
        config = self.clients.config
        config.timeout_keep_alive = settings.keep_alive_timeout  # type: ignore[assignment]
        config.timeout_graceful_shutdown = settings.shutdown_timeout


def make_server(gateway: Gateway, server_type: type[uvicorn.Server] = uvicorn.Server) -> uvicorn.Server:
    """Return a uvicorn server for a gateway that is never reloaded."""
    limits = ConnectionLimits(gateway.settings, gateway.metrics.connections_refused.add)
    return _make_server(gateway.app, gateway.settings, limits, server_type)


def _make_server(
    app: ASGIApp,
    settings: Settings,
    limits: ConnectionLimits,
    server_type: type[uvicorn.Server],
    *,
    lifespan: Literal["on", "off"] = "on",
) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(GatewayProtocol, limits)),
        ws="none",
        interface="asgi3",
        lifespan=lifespan,
        access_log=False,
        log_config=None,
        log_level="warning",
        ssl_certfile=settings.ssl_certfile or None,
        ssl_keyfile=settings.ssl_keyfile or None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_timeout,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )
    return server_type(config)

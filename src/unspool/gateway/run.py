"""Running a gateway: uvicorn, signals, the end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import uvicorn

from .._core.values.errors import UsageError
from .app import Gateway
from .building import build
from .logs import log, set_up
from .settings import Settings


def serve(settings: Settings) -> int:
    """Serve until told to stop; the result is the exit code."""
    set_up(settings)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(settings: Settings) -> int:
    with bind(settings) as listener:
        gateway = await build(settings)
        log(
            logging.INFO,
            "listening",
            url=address(listener),
            model=gateway.model.name,
            dialect=gateway.model.family,
            settings=settings.shown(),
        )
        if not await gateway.upstream.ready():
            log(logging.WARNING, "the upstream does not answer yet", url=settings.url)
        await make_server(gateway).serve([listener])
    return 0


def bind(settings: Settings) -> socket.socket:
    """The socket to listen on; before anything is loaded, because a port may be taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            "set port to another one, 0 for any that is free"
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """Where clients find it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(gateway: Gateway) -> uvicorn.Server:
    """The server of a gateway."""
    config = uvicorn.Config(
        gateway.app,
        http="auto",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=gateway.settings.shutdown_timeout,
    )
    return uvicorn.Server(config)

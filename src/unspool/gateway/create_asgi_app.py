"""ASGI application factory, for running the gateway under any ASGI server."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import UnspoolError
from .app import Gateway
from .build_from_settings import build
from .settings import Settings, load_settings
from .telemetry.logs import set_up, warn_about_variables


def create_app(settings: Settings | None = None) -> ASGIApp:
    """Return the gateway as an ASGI application.

    To run it with uvicorn: ``uvicorn --factory unspool.gateway:create_app``.
    The ASGI server chooses the address, which may be public, so the web page is served only if the
    setting ``page`` is true.
    :param settings: the gateway's settings; by default, they are read from the environment and from
        the file whose path is in ``UNSPOOL_CONFIG``.
    """
    settings = settings or load_settings()
    if settings.page is None:
        settings = replace(settings, page=False)
    set_up(settings)
    warn_about_variables(os.environ)
    return _Application(settings)


class _Application:
    """Application that builds its gateway on the first call, because building needs a running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._gateway: Gateway | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._gateway is None:
            try:
                await self._build()
            except UnspoolError as error:
                if scope["type"] != "lifespan":
                    raise
                await receive()  # ASGI requires reading the startup event before replying
                await send({"type": "lifespan.startup.failed", "message": f"unspool: {error}"})
                return
        assert self._gateway is not None  # noqa: S101 - it has just been built
        await self._gateway.app(scope, receive, send)

    async def _build(self) -> None:
        async with self._lock:
            if self._gateway is None:
                self._gateway = await build(self._settings)

"""Gateway that can be replaced while its process serves, so that ``SIGHUP`` reloads the settings.

A reload creates a new gateway from the new settings beside the old one, in the same process.  When the
new gateway is ready, new requests go to it.  The old gateway finishes its requests, then stops.  If the new
settings do not work, the old gateway continues.

Both gateways share the metrics, the store, the latest requests of the page, and an embedded model.  With
several workers, the supervisor replaces whole processes instead.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from ...errors import UnspoolError
from ..app import Gateway
from ..build_from_settings import build
from ..http.failure import Failure
from ..settings import Settings, keep_shared_settings
from ..telemetry.logs import LOGGER, log, set_up
from .tls import check_certificate

Reload = Callable[[], Settings]
"""Function that reads the settings again."""
_EVENTS: Final = ("startup", "shutdown")


class ReloadableGateway:
    """ASGI application that passes each request to the current gateway."""

    def __init__(self, gateway: Gateway, on_replaced: Callable[[Settings], None] = lambda _: None) -> None:
        """Create an application.

        :param on_replaced: called with the new settings after the gateway has been replaced.
        """
        self.gateway = gateway
        """The gateway that receives new requests."""
        self.on_replaced = on_replaced
        self._reloading: asyncio.Task[None] | None = None
        self._retiring: dict[asyncio.Task[None], Gateway] = {}
        """Tasks that wait for the last requests of old gateways."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        else:
            await self.gateway.app(scope, receive, send)

    async def serve_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to the port for metrics; an ASGI application."""
        await self.gateway.metrics_app(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        for event, work in zip(_EVENTS, (self._start, self._stop), strict=True):
            await receive()
            await work()
            await send({"type": f"lifespan.{event}.complete"})

    async def _start(self) -> None:
        await self.gateway.start()

    async def _stop(self) -> None:
        """Stop the current gateway and all old ones."""
        tasks = [*self._retiring, *([] if self._reloading is None else [self._reloading])]
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for old in (*self._retiring.values(), self.gateway):
            await old.stop(successor=None if old is self.gateway else self.gateway)

    def start_reload(self, reload: Reload) -> None:
        """Read the settings again and replace the gateway, unless this is already being done."""
        if self._reloading is not None and not self._reloading.done():
            log(logging.WARNING, "reload_ignored", reason="another reload has not finished")
            return
        self._reloading = asyncio.create_task(self.reload(reload))

    async def reload(self, reload: Reload) -> None:
        """Read the settings again and replace the gateway; if this fails, log the reason."""
        old = self.gateway
        try:
            settings = keep_shared_settings(await asyncio.to_thread(reload), old.settings)
            check_certificate(settings)
            log(logging.INFO, "reloading", settings=settings.shown())
            new = await build(settings, previous=old)
            await new.start()
        except (UnspoolError, Failure) as error:
            log(logging.ERROR, "reload_failed", reason=f"{error}; the old settings stay in use")
            return
        except Exception:  # noqa: BLE001 - whatever is wrong with the new settings, the old ones work
            LOGGER.exception("reload_failed")
            return
        self.gateway = new
        set_up(settings)
        self.on_replaced(settings)
        log(logging.INFO, "reloaded", model=new.model.name, dialect=new.model.family)
        task = asyncio.create_task(self._retire(old))
        self._retiring[task] = old

    async def _retire(self, old: Gateway) -> None:
        """Stop an old gateway after its last request."""
        await old.active.wait_until_empty()
        await old.stop(successor=self.gateway)
        task = asyncio.current_task()
        if task is not None:
            self._retiring.pop(task, None)
        del old
        # Objects that existed at the start are excluded from garbage collection; include them once, so that
        # the old gateway is freed.
        gc.unfreeze()
        gc.collect()
        gc.freeze()

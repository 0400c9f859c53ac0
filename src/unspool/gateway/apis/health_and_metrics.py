"""Handlers for ``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..generation.served_models import ServedModels
from ..http.auth import Authenticator
from ..http.exchange import Exchange
from ..http.json_encoding import encode_line
from ..telemetry.metrics import CONTENT_TYPE, Metrics, Snapshot
from ..upstreams.load_balancer import LoadBalancer

_CACHE_SECONDS: Final = 1.0
"""Time for which the result of a readiness check is reused, in seconds."""


class Status:
    """Handlers for health, readiness and metrics requests."""

    def __init__(self, models: ServedModels, metrics: Metrics, auth: Authenticator) -> None:
        self._models = models
        self._metrics = metrics
        self._auth = auth
        self.read_other_workers: Callable[[], Awaitable[list[Snapshot]]] | None = None
        """Function that returns the metrics of the other workers; None if there are no other workers."""
        self._checked: tuple[float, asyncio.Future[list[bool]]] | None = None
        """Start time of the last readiness check, and its result."""

    async def health(self, exchange: Exchange) -> None:
        """Report that the process is running."""
        await exchange.respond(200, b'{"status":"ok"}')

    async def ready(self, exchange: Exchange) -> None:
        """Report whether any upstream is ready, and to authenticated clients the state of each upstream."""
        upstreams = await self._check_upstreams()
        ready = any(upstreams)
        body: dict[str, Any] = {"status": "ready" if ready else "the upstream does not answer"}
        if self._auth.is_authenticated(exchange):
            models = self._models.all
            body["model"] = models[0].model.name
            body["models"] = {one.model.name: up for one, up in zip(models, upstreams, strict=True)}
        await exchange.respond(200 if ready else 503, encode_line(body))

    async def _check_upstreams(self) -> list[bool]:
        """Return, for each model, whether its upstream is ready; the result is reused for one second."""
        now = time.monotonic()
        if self._checked is None or now - self._checked[0] > _CACHE_SECONDS:
            check = asyncio.gather(*(one.upstream.ready() for one in self._models.all))
            self._checked = (now, check)
        return await asyncio.shield(self._checked[1])

    async def metrics(self, exchange: Exchange) -> None:
        """Send the metrics of all workers."""
        for served in self._models.all:
            if isinstance(served.upstream, LoadBalancer):
                for member in served.upstream.members:
                    up = float(not member.paused)
                    self._metrics.upstream_up.put(up, served.model.name, member.url)
        others = await self.read_other_workers() if self.read_other_workers is not None else []
        text = self._metrics.text(others).encode()
        await exchange.respond(200, text, ((b"content-type", CONTENT_TYPE.encode()),))

"""The paths of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ..._version import __version__
from ..apis.answers import encode
from ..generation.served_models import Served
from ..http.errors import Failure, invalid
from ..http.exchange import JSON, Exchange
from ..http.worker_pools import Lane
from .model_report import examined
from .request_json import line, whole
from .request_log import RequestLog
from .static_files import INDEX, SAFE, File, page_files
from .tee import PATHS, watched

if TYPE_CHECKING:
    from starlette.routing import Route

    from ..app import Gateway

_MOST_TEXT: Final = 1 << 18
"""Characters of an output that the page may have read."""
_RUNNING: Final = b"unspool is running\n"
_UNCACHED: Final = (*SAFE, *JSON, (b"cache-control", b"no-store"))


class Desk:
    """What the page is shown, and whom it may ask."""

    def __init__(self, gateway: Gateway) -> None:
        settings = gateway.settings
        self._gateway = gateway
        self._on = settings.page
        self.notes = RequestLog(settings.last_requests if self._keeps() else 0)
        self._files: dict[str, File] = page_files() if self._on else {}
        self._lane = Lane("answering the page", width=1, queue=16)
        self._examined: dict[str, asyncio.Task[dict[str, Any]]] = {}
        """What is known of each model, by its name, once somebody has asked."""

    def _keeps(self) -> bool:
        """Whether requests may be kept for the page: where it is known who looks."""
        return self._on and self._gateway.guard.knows_callers

    def close(self) -> None:
        """No more work."""
        self._lane.close()

    def routes(self) -> list[Route]:
        """All paths."""
        route = self._gateway.route
        if not self._on:
            return [route("/", "health", public=True, GET=self._alive)]
        return [
            route("/", "health", public=True, GET=self._index),
            *(route(f"/{path}", "page", public=True, GET=self._file) for path in self._files),
            route("/playground/about", "page", public=True, GET=self._about),
            route("/playground/answer", "page", quiet=True, POST=self._answer),
            route("/playground/chat", "page", quiet=True, POST=self._chat),
            route("/playground/requests", "page", quiet=True, GET=self._requests, DELETE=self._forget),
            route("/playground/requests/{id}", "page", quiet=True, GET=self._request),
            route("/playground/models/{id:path}", "page", quiet=True, GET=self._model),
        ]

    # -- files

    async def _alive(self, exchange: Exchange) -> None:
        """Some clients look here first whether anybody is there (Ollama's, Claude Code)."""
        await exchange.respond(200, _RUNNING, ((b"content-type", b"text/plain"), (b"vary", b"accept")))

    async def _index(self, exchange: Exchange) -> None:
        if "text/html" in exchange.header(b"accept"):
            await self._files[INDEX].send(exchange, (b"vary", b"accept"))
        else:
            await self._alive(exchange)

    async def _file(self, exchange: Exchange) -> None:
        await self._files[exchange.path.lstrip("/")].send(exchange)

    # -- what there is

    async def _about(self, exchange: Exchange) -> None:
        """What the page has to know first; strangers hear that a key is needed."""
        gateway = self._gateway
        settings = gateway.settings
        admitted = gateway.guard.admits(exchange)
        told: dict[str, Any] = {"keys": bool(settings.api_keys), "admitted": admitted}
        if admitted:
            told |= {
                "version": __version__,
                "models": [self._shown(served) for served in gateway.models.all],
                "apis": list(PATHS),
                "requests": self.notes.most,
                "why_no_requests": self._why_no_requests(),
                "workers": settings.workers,
                "templates": self._takes_templates(),
            }
        await self._tell(exchange, told)

    def _shown(self, served: Served) -> dict[str, Any]:
        model = served.model
        return {
            "name": model.name,
            "dialect": model.family,
            "aliases": list(model.aliases),
            "renders": not served.upstream.renders,
        }

    def _why_no_requests(self) -> str:
        if not self._gateway.settings.last_requests:
            return "The setting last_requests is 0."
        if not self._keeps():
            return "There are no api_keys, and others than this machine's users may come in."
        return ""

    async def _model(self, exchange: Exchange) -> None:
        """What is known of a model, found out once."""
        _from_here(exchange)
        served = self._gateway.models.find(exchange.part("id"))
        name = served.model.name
        found = self._examined.get(name)
        if found is None or (found.done() and found.exception() is not None):
            found = asyncio.create_task(self._lane.run(exchange.whose, examined, served))
            self._examined[name] = found
        await self._tell(exchange, await asyncio.shield(found))

    # -- questions

    async def _answer(self, exchange: Exchange) -> None:
        """A question of the playground."""
        _from_here(exchange)
        body = await self._gateway.body(exchange)
        text = body.get("text")
        if isinstance(text, str) and len(text) > _MOST_TEXT and body.get("ask") != "detect":
            told = f"{len(text):,} characters: the page reads {_MOST_TEXT:,}; POST /v1/parse takes more"
            raise Failure("too_large", told, param="text", code="parse_too_large")
        if body.get("ask") == "detect" and not self._takes_templates():
            raise invalid(
                "no templates of others are run here; the setting request_templates allows them",
                "ask",
                "unsupported_parameter",
            )
        data = await self._lane.run(exchange.whose, _answered, body)
        await exchange.respond(200, data, _UNCACHED)

    def _takes_templates(self) -> bool:
        """Whether the page may bring templates: whoever runs programs on this machine may run one more."""
        settings = self._gateway.settings
        return settings.request_templates or (not settings.api_keys and self._gateway.guard.knows_callers)

    async def _chat(self, exchange: Exchange) -> None:
        """A request of one of the APIs, and how its answer comes to be."""
        _from_here(exchange)
        given = await self._gateway.body(exchange)
        watcher = await watched(self._gateway, exchange, given)
        note = watcher.note
        if note is not None and not exchange.gone:
            await watcher.event("end", await self._lane.run(exchange.whose, whole, note))
        await exchange.send(b"", more=False)

    # -- the last requests

    async def _requests(self, exchange: Exchange) -> None:
        _from_here(exchange)
        kept = [line(note) for note in self.notes.of(exchange.owner)]
        await self._tell(exchange, {"requests": kept, "why_none": self._why_no_requests()})

    async def _request(self, exchange: Exchange) -> None:
        _from_here(exchange)
        note = self.notes.find(exchange.owner, exchange.part("id"))
        if note is None:
            told = f"the request {exchange.part('id')} is not kept, or no longer, or by another worker"
            raise Failure("not_found", told, code="not_found")
        await self._tell(exchange, await self._lane.run(exchange.whose, whole, note))

    async def _forget(self, exchange: Exchange) -> None:
        _from_here(exchange)
        self.notes.forget(exchange.owner)
        await self._tell(exchange, {"requests": []})

    async def _tell(self, exchange: Exchange, value: Mapping[str, Any]) -> None:
        await exchange.respond(200, encode(value), _UNCACHED)


def _answered(body: Mapping[str, Any]) -> bytes:
    from ...chat_templates._render_pool import isolated_renderer
    from ...playground import answer

    with isolated_renderer():
        return encode(answer(body))


def _from_here(exchange: Exchange) -> None:
    """Refuse other web pages, those of ``cors_origins``, too: what is told here is for this page alone."""
    site = exchange.header(b"sec-fetch-site")
    origin, host = exchange.header(b"origin"), exchange.header(b"host")
    other = site not in ("same-origin", "none") if site else origin and origin.partition("://")[2] != host
    if other:
        told = "this path is for the gateway's own page"
        raise Failure("authentication", told, code="wrong_origin", status=403)

"""Routes of the web page, and their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.routing import Route
from starlette.types import ASGIApp

from ..._version import __version__
from ..generation.observer import Observe
from ..generation.served_models import ServedModel, ServedModels
from ..http.auth import Authenticator
from ..http.endpoint import Endpoints
from ..http.exchange import JSON, Exchange
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_line
from ..http.request_body import BodyReader
from ..http.thread_pools import WorkerPool
from ..settings import Settings
from .chat_stream import PATHS, answer_with_events
from .model_report import report_model
from .request_log import RequestLog
from .request_record_json import record_to_dict, summarize
from .static_files import INDEX, SECURITY_HEADERS, StaticFile, load_static_files

_MAX_TEXT: Final = 1 << 18
"""Maximum number of characters that the playground parses."""
_RUNNING: Final = b"unspool is running\n"
_UNCACHED: Final = (*SECURITY_HEADERS, *JSON, (b"cache-control", b"no-store"))


class PageRoutes:
    """Routes of the web page and their handlers; if the page is disabled, there is only ``/``."""

    def __init__(
        self,
        settings: Settings,
        models: ServedModels,
        auth: Authenticator,
        bodies: BodyReader,
        endpoints: Endpoints,
        dispatch: ASGIApp,
    ) -> None:
        """Create the handlers.

        :param dispatch: ASGI application that answers the API requests of the page's chat.
        """
        self._settings = settings
        self._models = models
        self._auth = auth
        self._bodies = bodies
        self._endpoints = endpoints
        self._dispatch = dispatch
        self._enabled = settings.serves_page
        # If there are no API keys and other machines can reach the gateway, the log would show everybody's
        # requests to everybody.
        self._may_log = self._enabled and auth.knows_clients
        self.log = RequestLog(settings.last_requests if self._may_log else 0)
        self._files: dict[str, StaticFile] = load_static_files() if self._enabled else {}
        self._pool = WorkerPool("answering the page", width=1, queue=16)
        self._reports: dict[str, asyncio.Task[dict[str, Any]]] = {}
        """Model reports, keyed by model name; each one is created when the page first requests it."""

    def take_over(self, previous: PageRoutes) -> None:
        """Continue the list of the latest requests of the gateway that this one replaces."""
        if previous.log.capacity == self.log.capacity:
            self.log = previous.log

    @property
    def observe(self) -> Observe | None:
        """The function that logs requests for the page; None if the page is disabled."""
        return self.log.begin if self._enabled else None

    def close(self) -> None:
        """Cancel queued work."""
        self._pool.close()

    def routes(self) -> list[Route]:
        """Return the routes of all paths."""
        route = self._endpoints.route
        if not self._enabled:
            return [route("/", "health", public=True, GET=self._running)]
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

    async def _running(self, exchange: Exchange) -> None:
        """Answer a health check; Ollama's clients and Claude Code send one to ``/`` before they start."""
        await exchange.respond(200, _RUNNING, ((b"content-type", b"text/plain"), (b"vary", b"accept")))

    async def _index(self, exchange: Exchange) -> None:
        if "text/html" in exchange.header(b"accept"):
            await self._files[INDEX].send(exchange, (b"vary", b"accept"))
        else:
            await self._running(exchange)

    async def _file(self, exchange: Exchange) -> None:
        await self._files[exchange.path.lstrip("/")].send(exchange)

    # -- the gateway

    async def _about(self, exchange: Exchange) -> None:
        """Send the page's initial data; without a valid key, report only that a key is needed."""
        settings = self._settings
        admitted = self._auth.is_authenticated(exchange)
        about: dict[str, Any] = {"keys": settings.needs_key, "admitted": admitted}
        if admitted:
            about |= {
                "version": __version__,
                "models": [
                    _summarize_model(served) for served in self._models.visible(self._allowed(exchange))
                ],
                "apis": list(PATHS),
                "requests": self.log.capacity,
                "why_no_requests": self._why_no_requests(),
                "workers": settings.workers,
                "templates": self._accepts_templates(),
            }
        await self._send(exchange, about)

    def _allowed(self, exchange: Exchange) -> frozenset[str] | None:
        """Return the models that a request to a public path may see."""
        return self._auth.check_key(exchange).models if self._settings.needs_key else None

    def _why_no_requests(self) -> str:
        if not self._settings.last_requests:
            return "The setting last_requests is 0."
        if not self._may_log:
            return "There are no api_keys, and clients on other machines can connect."
        return ""

    async def _model(self, exchange: Exchange) -> None:
        """Send the report on a model; each report is created only once."""
        _check_origin(exchange)
        served = self._models.find(exchange.path_param("id"), exchange.allowed_models)
        name = served.model.name
        report = self._reports.get(name)
        if report is None or (report.done() and report.exception() is not None):
            report = asyncio.create_task(self._pool.run(exchange.client, report_model, served))
            self._reports[name] = report
        await self._send(exchange, await asyncio.shield(report))

    # -- the playground and the chat

    async def _answer(self, exchange: Exchange) -> None:
        """Answer a request from the playground."""
        _check_origin(exchange)
        body = await self._bodies.read(exchange)
        text = body.get("text")
        if isinstance(text, str) and len(text) > _MAX_TEXT and body.get("ask") != "detect":
            message = (
                f"the text has {len(text):,} characters, but the page parses at most {_MAX_TEXT:,}; "
                "send it to POST /v1/parse"
            )
            raise Failure("too_large", message, param="text", code="parse_too_large")
        if body.get("ask") == "detect" and not self._accepts_templates():
            raise invalid(
                "the gateway does not run chat templates from clients; set request_templates to allow them",
                "ask",
                "unsupported_parameter",
            )
        data = await self._pool.run(exchange.client, _answer_question, body)
        await exchange.respond(200, data, _UNCACHED)

    def _accepts_templates(self) -> bool:
        """Return whether the page may send chat templates.

        Without API keys, this is safe only if all clients are programs on this machine, because such programs
        can run any code anyway.
        """
        settings = self._settings
        return settings.request_templates or (not settings.needs_key and self._auth.knows_clients)

    async def _chat(self, exchange: Exchange) -> None:
        """Answer the API request in the body; the response also contains the model's raw output."""
        _check_origin(exchange)
        body = await self._bodies.read(exchange)
        tee = await answer_with_events(self._dispatch, self._endpoints.active, exchange, body)
        record = tee.record
        if record is not None and not exchange.disconnected:
            await tee.send_event("end", await self._pool.run(exchange.client, record_to_dict, record))
        await exchange.send(b"", more=False)

    # -- the latest requests

    async def _requests(self, exchange: Exchange) -> None:
        _check_origin(exchange)
        listed = [summarize(record) for record in self.log.records(exchange.tenant)]
        await self._send(exchange, {"requests": listed, "why_none": self._why_no_requests()})

    async def _request(self, exchange: Exchange) -> None:
        _check_origin(exchange)
        record = self.log.find(exchange.tenant, exchange.path_param("id"))
        if record is None:
            message = (
                f"the request {exchange.path_param('id')} is not in the log: "
                "it is too old, or another worker answered it"
            )
            raise Failure("not_found", message, code="not_found")
        await self._send(exchange, await self._pool.run(exchange.client, record_to_dict, record))

    async def _forget(self, exchange: Exchange) -> None:
        _check_origin(exchange)
        self.log.forget(exchange.tenant)
        await self._send(exchange, {"requests": []})

    async def _send(self, exchange: Exchange, value: Mapping[str, Any]) -> None:
        await exchange.respond(200, encode_line(value), _UNCACHED)


def _summarize_model(served: ServedModel) -> dict[str, Any]:
    model = served.model
    return {
        "name": model.name,
        "dialect": model.family,
        "aliases": list(model.aliases),
        "renders": not served.upstream.renders,
    }


def _answer_question(body: Mapping[str, Any]) -> bytes:
    from ...playground import answer
    from ...templates import isolated_renderer

    with isolated_renderer():
        return encode_line(answer(body))


def _check_origin(exchange: Exchange) -> None:
    """Reject requests from other web pages, even from origins that ``cors_origins`` allows for the APIs."""
    site = exchange.header(b"sec-fetch-site")
    origin, host = exchange.header(b"origin"), exchange.header(b"host")
    other = site not in ("same-origin", "none") if site else origin and origin.partition("://")[2] != host
    if other:
        message = "only the gateway's own page may use this path"
        raise Failure("authentication", message, code="wrong_origin", status=403)

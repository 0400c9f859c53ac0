"""Gateway class, which creates the gateway's parts, connects them and routes paths to handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from .apis.chat.handler import ChatHandler
from .apis.error_bodies import anthropic_error, ollama_api_error, openai_error
from .apis.health_and_metrics import Status
from .apis.messages.handler import MessagesHandler
from .apis.models import ModelList
from .apis.ollama.embed import OllamaEmbed
from .apis.ollama.handler import OllamaHandler
from .apis.ollama.models import OllamaModels
from .apis.parse_endpoint import ParseHandler
from .apis.passthrough import Passthrough
from .apis.responses.handler import ResponsesHandler
from .apis.responses.stored_responses_and_conversations import StoredObjects
from .apis.tokenize_endpoints import Tokenize
from .generation.generator import Generator
from .generation.served_models import ServedModel, ServedModels
from .http.active_requests import ActiveRequests
from .http.auth import Authenticator
from .http.endpoint import Endpoints
from .http.exchange import Exchange
from .http.failure import Failure
from .http.request_body import BodyReader
from .http.thread_pools import WorkerPools
from .page.routes import PageRoutes
from .settings import Settings
from .state.sqlite_store import SqliteStore
from .state.store import MemoryStore, Store
from .telemetry.metrics import Metrics


class Gateway:
    """Web application that serves one or more models, each through its own upstream."""

    def __init__(
        self, settings: Settings, served: Sequence[ServedModel], previous: Gateway | None = None
    ) -> None:
        """Create a gateway.

        :param served: the models; requests that do not name a model use the first one.
        :param previous: gateway in the same process that the new one replaces; the new one continues its
            metrics, its store and its list of the latest requests.
        """
        self.settings = settings
        self.models = ServedModels(served, strict=settings.strict_model_names)
        self.model = served[0].model
        """The default model, for requests that do not name a model."""
        self.upstream = served[0].upstream
        """The default model's upstream."""
        self.metrics: Metrics = Metrics() if previous is None else previous.metrics
        self.store: Store = _create_store(settings) if previous is None else previous.store
        self.pools = WorkerPools()
        self.bodies = BodyReader(settings, self.pools.bodies)
        self.active = ActiveRequests(
            self.metrics.active,
            limit=settings.max_concurrency,
            client_timeout=settings.client_timeout,
            ping_interval=settings.ping_interval,
        )
        auth = Authenticator(settings)
        if previous is not None:
            auth.take_over(previous.auth)
        self.auth: Authenticator = auth
        self.status = Status(self.models, self.metrics, auth)
        self._endpoints = Endpoints(self.active, auth, self.metrics, openai_error)
        self.page = PageRoutes(settings, self.models, auth, self.bodies, self._endpoints, self._dispatch)
        if previous is not None:
            self.status.read_other_workers = previous.status.read_other_workers
            self.page.take_over(previous.page)
        self.metrics_app = Router(self._metrics_routes(), default=self._unknown_path())
        """The ASGI application for the port of the setting ``metrics_port``, which needs no API keys."""
        self.router = Router(self._routes(), default=self._unknown_path(), lifespan=self._lifespan)
        self.app = self._app()
        """The ASGI application."""

    def _routes(self) -> list[Route]:
        settings, bodies, models, pools = self.settings, self.bodies, self.models, self.pools
        generator = Generator(
            models,
            bodies,
            self.active,
            pools,
            self.metrics,
            log_contents=settings.log_contents,
            observe=self.page.observe,
        )
        chat = ChatHandler(generator, bodies)
        responses = ResponsesHandler(
            generator, bodies, self.store, seal_key=settings.seal_key, hosted_tools=settings.hosted_tools
        )
        messages = MessagesHandler(
            generator,
            bodies,
            self.store,
            models,
            pools,
            keeps_threads=settings.max_stored_bytes > 0,
            hosted_tools=settings.hosted_tools,
        )
        parse = ParseHandler(
            models,
            bodies,
            pools,
            max_output_bytes=settings.max_output_bytes,
            request_templates=settings.request_templates,
        )
        passthrough = Passthrough(models, bodies, self.active)
        tokenize = Tokenize(models, bodies, pools)
        listed = ModelList(models)
        route = self._endpoints.route
        return [
            route("/v1/chat/completions", "chat", timed=True, POST=chat.create),
            route("/v1/responses", "responses", timed=True, POST=responses.create),
            *self._stored_routes(),
            route("/v1/messages", "messages", timed=True, errors=anthropic_error, POST=messages.create),
            route(
                "/v1/messages/count_tokens",
                "count_tokens",
                timed=True,
                errors=anthropic_error,
                POST=messages.count_tokens,
            ),
            route("/v1/completions", "completions", POST=passthrough.completions),
            route("/v1/embeddings", "embeddings", POST=passthrough.embeddings),
            route("/tokenize", "tokenize", POST=tokenize.tokenize),
            route("/detokenize", "tokenize", POST=tokenize.detokenize),
            *self._ollama_routes(generator),
            route("/v1/parse", "parse", POST=parse.parse),
            route("/v1/models", "models", GET=listed.get),
            route("/v1/models/{id:path}", "models", GET=listed.get),
            route("/metrics", "metrics", GET=self.status.metrics),
            route("/health", "health", public=True, GET=self.status.health),
            route("/ready", "ready", public=True, GET=self.status.ready),
            *self.page.routes(),
        ]

    def _metrics_routes(self) -> list[Route]:
        route = partial(self._endpoints.route, public=True)
        return [
            route("/metrics", "metrics", GET=self.status.metrics),
            route("/health", "health", GET=self.status.health),
            route("/ready", "ready", GET=self.status.ready),
        ]

    def _stored_routes(self) -> list[Route]:
        stored = StoredObjects(self.store, self.bodies)
        route = partial(self._endpoints.route, name="stored")
        response, conversation = "/v1/responses/{id}", "/v1/conversations/{id}"
        return [
            route(response, GET=stored.get_response, DELETE=stored.delete_response),
            route(f"{response}/cancel", POST=stored.cancel_response),
            route(f"{response}/input_items", GET=stored.input_items),
            route("/v1/conversations", POST=stored.create_conversation),
            route(
                conversation,
                GET=stored.get_conversation,
                POST=stored.update_conversation,
                DELETE=stored.delete_conversation,
            ),
            route(f"{conversation}/items", GET=stored.list_items, POST=stored.add_items),
            route(f"{conversation}/items/{{item}}", GET=stored.get_item, DELETE=stored.delete_item),
        ]

    def _ollama_routes(self, generator: Generator) -> list[Route]:
        ollama = OllamaHandler(generator, self.bodies, self.models)
        embed = OllamaEmbed(self.models, self.bodies, self.pools.answers)
        models = OllamaModels(self.models, self.bodies)
        route = partial(self._endpoints.route, errors=ollama_api_error)
        model_route = partial(route, name="ollama_models")
        return [
            route("/api/chat", "ollama", timed=True, POST=ollama.create),
            route("/api/generate", "ollama_generate", timed=True, POST=ollama.create),
            route("/api/embed", "ollama_embed", POST=embed.embed),
            route("/api/embeddings", "ollama_embed", POST=embed.embed),
            model_route("/api/tags", GET=models.tags),
            model_route("/api/ps", GET=models.running),
            model_route("/api/show", POST=models.show),
            model_route("/api/version", GET=models.version),
            *(
                model_route(f"/api/{verb}", POST=models.refuse, DELETE=models.refuse)
                for verb in ("pull", "push", "create", "copy", "delete")
            ),
        ]

    def _unknown_path(self) -> ASGIApp:
        async def refuse(exchange: Exchange) -> None:
            raise Failure(
                "not_found",
                f"there is no endpoint at {exchange.method} {exchange.path}; use /v1/chat/completions, "
                "/v1/responses, /v1/messages, /v1/models or /v1/parse",
                code="not_found",
            )

        return self._endpoints.endpoint("unknown", ANY=refuse)

    def _app(self) -> ASGIApp:
        """Return the router, wrapped in CORS middleware if ``cors_origins`` is set.

        Without ``cors_origins``, there is no middleware at all, because middleware adds time to each delta.
        """
        if not self.settings.cors_origins:
            return self.router
        return CORSMiddleware(
            self.router,
            allow_origins=list(self.settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an API request that the web page's chat has wrapped in another request."""
        await self.router(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Start serving; the caller has already started the upstreams and the store."""
        await self.active.start()

    async def stop(self, successor: Gateway | None = None) -> None:
        """Stop serving, then stop the upstreams and the store.

        :param successor: gateway that replaces this one; the upstreams and the store that it uses continue.
        """
        if await self.active.stop():
            used = () if successor is None else tuple(one.upstream for one in successor.models.all)
            for served in self.models.all:
                if served.upstream not in used:
                    await served.upstream.stop()
            if successor is None or successor.store is not self.store:
                await self.store.stop()
            self.pools.close()
            self.page.close()


def _create_store(settings: Settings) -> Store:
    if settings.store:
        return SqliteStore(settings.store, settings.max_stored_bytes)
    return MemoryStore(settings.max_stored_bytes)

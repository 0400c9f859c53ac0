"""The gateway: requests in, plans made, an upstream called, its output read, answers out.

No parsing happens here, and no API is spelt here: ``body.py`` and its neighbours
read requests, ``model.py`` plans and renders, ``upstreams`` generate, ``reading.py``
reads, ``answers.py`` writes.  What is left is the order of things, and what happens
when one of them fails:

- Before the answer has begun, a failure is a status and an error object.
- After that it is the last event of the stream, in the API's own form.
- If the client leaves, the upstream is cancelled, and nobody is told but the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from ..policies import Policies
from .apis.answers import encode
from .apis.chat.request import Job, chat_job
from .apis.messages.request import messages_job
from .apis.ollama.models import OllamaModels, loaded
from .apis.ollama.request import is_load, ollama_chat_job, ollama_generate_job
from .apis.parse import parse_body
from .apis.passthrough import Passing
from .apis.responses.request import responses_job
from .apis.responses.stored import Stored
from .generation.history_repair import malformed_in_a_row, without_poisoned_arguments
from .generation.model import Model, Prepared
from .generation.pipeline import Output
from .generation.reader import Reader, SplitParsers
from .generation.served_models import Models, Served
from .http.auth import Guard
from .http.endpoint import Endpoint, Handler
from .http.errors import Failure
from .http.exchange import Exchange
from .http.request_body import Intake
from .http.worker_pools import Lanes
from .page.routes import Desk
from .server.logs import log, log_once
from .server.metrics import CONTENT_TYPE, Metrics
from .server.worker_link import Colleagues
from .settings import Settings
from .state.history import recall
from .state.seal import Seal
from .state.sqlite_store import SqliteStore
from .state.store import MemoryStore, Store
from .state.threads import Thread, resume
from .upstreams.balanced import Balanced
from .upstreams.base import Stream, Task, to_nobody

_GRAIN: Final = 1.0
"""Seconds between looks at clients that do not read."""


class Gateway:
    """Models behind their upstreams, in front of clients."""

    def __init__(self, settings: Settings, served: Sequence[Served]) -> None:
        self.settings = settings
        self.models = Models(served, strict=settings.strict_model_names)
        self.model = served[0].model
        """The model of requests that name none."""
        self.upstream = served[0].upstream
        self.metrics = Metrics()
        self.store = _store(settings)
        self.colleagues: Colleagues | None = None
        """Where this is one of several workers."""
        self._seal = Seal(settings.seal_key)
        self.lanes = Lanes()
        self.intake = Intake(settings, self.lanes.bodies)
        self.guard = Guard(settings)
        self.desk = Desk(self)
        self._asked: tuple[float, asyncio.Future[list[bool]]] | None = None
        """When the upstreams were last asked whether they are ready, and what they said."""
        self._active: set[Exchange] = set()
        self._admitted: set[Exchange] = set()
        """Those that count for ``max_concurrency``: their bodies are there."""
        self._reaper: asyncio.Task[None] | None = None
        self.router = self._router()
        self.app = self._app()
        """The ASGI application."""

    def _router(self) -> Router:
        routes = [
            self.route("/v1/chat/completions", "chat", POST=self._generate_chat),
            self.route("/v1/responses", "responses", POST=self._generate_responses),
            self.route("/v1/messages", "messages", POST=self._generate_messages),
            self.route("/v1/messages/count_tokens", "count_tokens", POST=self._count_tokens),
            *self._stored_routes(),
            *self._passing_routes(),
            *self._ollama_routes(),
            self.route("/v1/parse", "parse", POST=self._parse),
            self.route("/v1/models", "models", GET=self._models),
            self.route("/v1/models/{id:path}", "models", GET=self._models),
            self.route("/metrics", "metrics", GET=self._metrics),
            self.route("/health", "health", public=True, GET=self._health),
            self.route("/ready", "ready", public=True, GET=self._ready),
            *self.desk.routes(),
        ]
        # Without Starlette's own layers: every one of them is run through for every delta.
        nowhere = Endpoint(self, "unknown", {"": self._nowhere})
        return Router(routes, default=nowhere, lifespan=self._lifespan)

    def _app(self) -> ASGIApp:
        if not self.settings.cors_origins:
            return self.router
        return CORSMiddleware(
            self.router,
            allow_origins=list(self.settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )

    def route(
        self, path: str, name: str, *, public: bool = False, quiet: bool = False, **handlers: Handler
    ) -> Route:
        """A path, and who answers there; see :class:`Endpoint`."""
        return Route(path, Endpoint(self, name, handlers, public=public, quiet=quiet))

    def _stored_routes(self) -> list[Route]:
        stored = Stored(self.store, self.intake)
        responses, conversations = "/v1/responses/{id}", "/v1/conversations/{id}"
        return [
            self.route(responses, "stored", GET=stored.get_response, DELETE=stored.delete_response),
            self.route(f"{responses}/cancel", "stored", POST=stored.cancel_response),
            self.route(f"{responses}/input_items", "stored", GET=stored.input_items),
            self.route("/v1/conversations", "stored", POST=stored.create_conversation),
            self.route(
                conversations,
                "stored",
                GET=stored.get_conversation,
                POST=stored.update_conversation,
                DELETE=stored.delete_conversation,
            ),
            self.route(f"{conversations}/items", "stored", GET=stored.list_items, POST=stored.add_items),
            self.route(
                f"{conversations}/items/{{item}}", "stored", GET=stored.get_item, DELETE=stored.delete_item
            ),
        ]

    def _passing_routes(self) -> list[Route]:
        passing = Passing(self)
        return [
            self.route("/v1/completions", "completions", POST=passing.completions),
            self.route("/v1/embeddings", "embeddings", POST=passing.embeddings),
            self.route("/tokenize", "tokenize", POST=passing.tokenize),
            self.route("/detokenize", "tokenize", POST=passing.detokenize),
            self.route("/api/embed", "ollama_embed", POST=passing.embed),
            self.route("/api/embeddings", "ollama_embed", POST=passing.embed),
        ]

    def _ollama_routes(self) -> list[Route]:
        models = OllamaModels(self.models, self.intake)
        route = partial(self.route, name="ollama_models")
        return [
            self.route("/api/chat", "ollama", POST=self._generate_ollama),
            self.route("/api/generate", "ollama_generate", POST=self._generate_ollama),
            route("/api/tags", GET=models.tags),
            route("/api/ps", GET=models.running),
            route("/api/show", POST=models.show),
            route("/api/version", GET=models.version),
            *(
                route(f"/api/{verb}", POST=models.only_there, DELETE=models.only_there)
                for verb in ("pull", "push", "create", "copy", "delete")
            ),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Begin to serve; the upstream and the store have been started."""
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """Let go of everything."""
        if self._reaper is not None:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
            self._reaper = None
            for served in self.models.all:
                await served.upstream.stop()
            await self.store.stop()
            self.lanes.close()
            self.desk.close()

    async def _reap(self) -> None:
        """Look after the clients, for ever."""
        pings: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(min(_GRAIN, self.settings.ping_interval))
            self._look_after_clients(pings)

    def _look_after_clients(self, pings: set[asyncio.Task[None]]) -> None:
        """Give up those that have stopped reading; show the others that we live."""
        limit = time.monotonic() - self.settings.client_timeout
        for exchange in tuple(self._active):
            if exchange.sending_since is not None and exchange.sending_since < limit:
                exchange.give_up()
            elif exchange.ping:
                ping = asyncio.create_task(exchange.show_life(self.settings.ping_interval))
                pings.add(ping)
                ping.add_done_callback(pings.discard)

    # -- small endpoints

    async def _nowhere(self, exchange: Exchange) -> None:
        raise Failure(
            "not_found",
            f"there is nothing at {exchange.method} {exchange.path}; there are /v1/chat/completions, "
            "/v1/responses, /v1/messages, /v1/models and /v1/parse",
            code="not_found",
        )

    async def _health(self, exchange: Exchange) -> None:
        await exchange.respond(200, b'{"status":"ok"}')

    async def _ready(self, exchange: Exchange) -> None:
        """Ready is a gateway that could answer some request; it tells which, if it is asked with a key."""
        answers = await self._readiness()
        ready = any(answers)
        body: dict[str, Any] = {"status": "ready" if ready else "the upstream does not answer"}
        if self.guard.admits(exchange):
            body["model"] = self.model.name
            body["models"] = {one.model.name: up for one, up in zip(self.models.all, answers, strict=True)}
        await exchange.respond(200 if ready else 503, encode(body))

    async def _readiness(self) -> list[bool]:
        """Whether each upstream is ready: however many ask, the upstreams are asked once in a while."""
        now = time.monotonic()
        if self._asked is None or now - self._asked[0] > _GRAIN:
            asking = asyncio.gather(*(one.upstream.ready() for one in self.models.all))
            self._asked = (now, asking)
        return await asyncio.shield(self._asked[1])

    async def _metrics(self, exchange: Exchange) -> None:
        for served in self.models.all:
            if isinstance(served.upstream, Balanced):
                for member in served.upstream.members:
                    self.metrics.upstream_up.put(float(member.resting is None), served.model.name, member.url)
        others = await self.colleagues.counted() if self.colleagues is not None else []
        text = self.metrics.text(others).encode()
        await exchange.respond(200, text, ((b"content-type", CONTENT_TYPE.encode()),))

    async def _models(self, exchange: Exchange) -> None:
        wanted = exchange.path.removeprefix("/v1/models").strip("/")
        if wanted:
            await exchange.respond(200, encode(_shown(self.models.find(wanted).model)))
            return
        names = [one.model.name for one in self.models.all]
        listed = {
            "object": "list",
            "data": [_shown(one.model) for one in self.models.all],
            "has_more": False,
            "first_id": names[0],
            "last_id": names[-1],
        }
        await exchange.respond(200, encode(listed))

    async def _parse(self, exchange: Exchange) -> None:
        body = await self.body(exchange)
        served = self.models.find(body.get("model"))
        limit = self.settings.max_output_bytes
        templates = self.settings.request_templates
        lane = self.lanes.templates if templates and body.get("chat_template") else self.lanes.aside
        answer = await lane.run(exchange.whose, parse_body, body, served.model, limit, templates=templates)
        await exchange.respond(200, answer)

    async def body(self, exchange: Exchange) -> dict[str, Any]:
        """The body of a request."""
        return await self.intake.body(exchange)

    async def _count_tokens(self, exchange: Exchange) -> None:
        body = await self.body(exchange)
        served = self.models.find(body.get("model"))
        body, _ = await self._resumed(exchange, body)
        job = await self.intake.job(
            exchange, messages_job, {"max_tokens": 1, **body}, hosted=self.settings.hosted_tools
        )
        prompt = (await self.lanes.prompts.run(exchange.whose, served.prepare, job, exchange.id)).prompt
        tokens = None
        if prompt is not None:
            tokens = await served.tokenize(self.lanes.aside, exchange.whose, prompt)
        if tokens is None:
            raise Failure(
                "not_found",
                "nobody here can count tokens: the upstream does not, and model_dir names no tokenizer.json",
                code="not_found",
            )
        await exchange.respond(200, encode({"input_tokens": len(tokens)}))

    async def _resumed(
        self, exchange: Exchange, body: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Thread | None]:
        keeps = self.settings.max_stored_bytes > 0
        return await resume(self.store, self.intake, exchange, body, keeps=keeps)

    # -- generation

    async def _generate_chat(self, exchange: Exchange) -> None:
        async def read(body: Mapping[str, Any]) -> Job:
            return await self.intake.job(exchange, chat_job, body)

        await self._generate(exchange, read)

    async def _generate_responses(self, exchange: Exchange) -> None:
        async def read(body: Mapping[str, Any]) -> Job:
            past = await recall(self.store, self.intake, exchange, body)
            seal = self._seal.of(exchange.owner)
            return await self.intake.job(
                exchange, responses_job, body, hosted=self.settings.hosted_tools, past=past, seal=seal
            )

        await self._generate(exchange, read)

    async def _generate_messages(self, exchange: Exchange) -> None:
        async def read(body: Mapping[str, Any]) -> Job:
            whole, thread = await self._resumed(exchange, body)
            job = await self.intake.job(exchange, messages_job, whole, hosted=self.settings.hosted_tools)
            job.thread = thread
            return job

        await self._generate(exchange, read)

    async def _generate_ollama(self, exchange: Exchange) -> None:
        form = exchange.path.rpartition("/")[2]

        async def read(body: Mapping[str, Any]) -> Job | None:
            if is_load(body, form):
                model = self.models.find(body.get("model")).model
                await exchange.respond(200, encode(loaded(model.name, body, form)))
                return None
            job = ollama_chat_job if form == "chat" else ollama_generate_job
            return await self.intake.job(exchange, job, body)

        await self._generate(exchange, read)

    async def _generate(
        self, exchange: Exchange, read: Callable[[Mapping[str, Any]], Awaitable[Job | None]]
    ) -> None:
        body = await self.body(exchange)
        self.admit(exchange)
        note = self.desk.notes.begin(exchange)
        served = self.models.find(body.get("model"))
        model = served.model
        job = await read(body)
        if job is None:
            return
        for what in job.left_out:
            log_once("left out of requests", what)
        policies = model.policies
        if await self.intake.off_loop(exchange, _unspoilt, job) >= served.settings.malformed_retries:
            policies = replace(policies, malformed_call="error")
        exchange.watch()
        if self.settings.log_contents:
            log(logging.INFO, "request contents", id=exchange.id, body=body)
        ids = served.settings.token_ids and model.tokenizer is not None
        off_loop = self.lanes.prompts.of(exchange.whose)
        prepared, readers = await off_loop(lambda: _prepared(served, job, exchange.id, policies, ids=ids))
        if note is not None:
            note.planned(served, job, prepared, policies, ids=ids)
        task = Task(
            id=exchange.id,
            request=job.request,
            plan=prepared.plan,
            prompt=prepared.prompt,
            tools=prepared.tools,
            n=job.n,
            max_tokens=job.max_tokens,
            stop=job.stop,
            stop_ids=job.stop_ids,
            keeps_stop=job.keeps_stop,
            logprobs=job.logprobs,
            token_ids=job.token_ids or ids,
            schema=None if prepared.plan.forced else job.schema,
            sampling=job.sampling,
            large=exchange.large,
            off_loop=off_loop,
            tell=to_nobody if note is None else note.tell,
        )
        output = Output(self, served, exchange, job, readers)
        try:
            stream = await served.upstream.open(task)
            try:
                source: Stream = stream if note is None else await note.tap(stream)
                await (output.stream(source) if job.stream else output.whole(source))
            finally:
                await stream.close()
        finally:
            output.count()

    def admit(self, exchange: Exchange) -> None:
        """Count a request whose body is there; refuse one that would be too many."""
        limit = self.settings.max_concurrency
        if limit and len(self._admitted) >= limit:
            told = f"more than {limit} requests at once; try again"
            raise Failure("overloaded", told, code="overloaded", retry_after="1")
        self._admitted.add(exchange)

    def enter(self, exchange: Exchange) -> None:
        """A request begins."""
        self._active.add(exchange)
        self.metrics.active.add(amount=1)

    def exit(self, exchange: Exchange) -> None:
        """A request is over."""
        self._active.discard(exchange)
        self._admitted.discard(exchange)
        self.metrics.active.add(amount=-1)
        exchange.unwatch()

    def check(self, exchange: Exchange, *, public: bool) -> None:
        """Refuse those who may not come in, and know the others."""
        self.guard.check_host(exchange)
        if not public:
            exchange.owner = self.guard.check_key(exchange)


def _unspoilt(job: Job) -> int:
    """Put the conversation as the model wrote it; the result says how many malformed calls end it."""
    messages = job.request["messages"]
    job.request["messages"] = without_poisoned_arguments(messages)
    return malformed_in_a_row(messages)


def _prepared(
    served: Served, job: Job, id: str, policies: Policies, *, ids: bool
) -> tuple[Prepared, list[Reader]]:
    """The request made ready for the upstream, and who reads each choice: both take the tools' schemas."""
    prepared = served.prepare(job, id, policies)
    split = SplitParsers(prepared.plan)
    return prepared, [Reader(prepared.plan, ids=ids, split=split) for _ in range(job.n)]


def _shown(model: Model) -> dict[str, Any]:
    """A model as both vendors' clients list it."""
    return {
        "id": model.name,
        "object": "model",
        "type": "model",
        "display_name": model.name,
        "created": model.created,
        "owned_by": "unspool",
        "dialect": model.family,
    }


def _store(settings: Settings) -> Store:
    if settings.store:
        return SqliteStore(settings.store, settings.max_stored_bytes)
    return MemoryStore(settings.max_stored_bytes)

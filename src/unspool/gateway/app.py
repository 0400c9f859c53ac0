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
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from .._core.values.errors import MalformedOutput
from .._core.values.events import CallStart, Event, FinishReason, Text
from .._core.values.ids import IdFormat
from .._core.values.policies import Policies
from ..wire.broken import is_spoilt_as_malformed
from .answers import (
    ANSWERS,
    JSON_ERROR_APIS,
    Answer,
    ChatAnswer,
    ResponsesAnswer,
    Whole,
    encode,
    error_object,
)
from .body import Api, Job, chat_job, decode, wrong_model
from .broken_history import malformed_in_a_row, without_spoilers
from .exchange import EVENTS, JSON, ClientGone, Exchange, Receive, Scope, Send
from .failure import Failure
from .from_messages import messages_job
from .from_responses import responses_job
from .guard import Guard
from .logs import LOGGER, log, log_once
from .metrics import CONTENT_TYPE, Metrics
from .model import Model, Prepared
from .parsing import parse_body
from .reading import Reader
from .settings import Settings
from .soft import prepare_softly
from .store import Store
from .upstreams.base import Batch, Stream, Task, Upstream, Usage

_REQUEST_ID: Final = IdFormat("req_{random}")
_GRAIN: Final = 1.0
"""Seconds between looks at clients that do not read."""

Handler = Callable[[Exchange], Awaitable[None]]


class Gateway:
    """A model behind an upstream, in front of clients."""

    def __init__(self, settings: Settings, model: Model, upstream: Upstream) -> None:
        self.settings = settings
        self.model = model
        self.upstream = upstream
        self.metrics = Metrics()
        self.store = Store(settings.max_stored_bytes)
        self._guard = Guard(settings.api_keys, settings.host, settings.hosts)
        self._active: set[Exchange] = set()
        self._reaper: asyncio.Task[None] | None = None
        self.app = self._app()
        """The ASGI application."""

    def _app(self) -> ASGIApp:
        routes = [
            Route("/v1/chat/completions", _Endpoint(self, "chat", self._generate_chat, "POST")),
            Route("/v1/responses", _Endpoint(self, "responses", self._generate_responses, "POST")),
            Route("/v1/messages", _Endpoint(self, "messages", self._generate_messages, "POST")),
            Route("/v1/messages/count_tokens", _Endpoint(self, "count_tokens", self._count_tokens, "POST")),
            Route("/v1/parse", _Endpoint(self, "parse", self._parse, "POST")),
            Route("/v1/models", _Endpoint(self, "models", self._models, "GET")),
            Route("/v1/models/{id:path}", _Endpoint(self, "models", self._models, "GET")),
            Route("/metrics", _Endpoint(self, "metrics", self._metrics, "GET")),
            Route("/health", _Endpoint(self, "health", self._health, "GET", public=True)),
            Route("/ready", _Endpoint(self, "ready", self._ready, "GET", public=True)),
        ]
        # Without Starlette's own layers: every one of them is run through for every delta.
        nowhere = _Endpoint(self, "unknown", self._nowhere, "")
        router = Router(routes, default=nowhere, lifespan=self._lifespan)
        if not self.settings.cors_origins:
            return router
        return CORSMiddleware(
            router,
            allow_origins=list(self.settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )

    @asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Begin to serve; the upstream has been started."""
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """Let go of everything."""
        if self._reaper is not None:
            self._reaper.cancel()
            with suppress(asyncio.CancelledError):
                await self._reaper
            self._reaper = None
            await self.upstream.stop()

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
                exchange.leave("does not read")
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
        ready = await self.upstream.ready()
        body = {"status": "ready" if ready else "the upstream does not answer", "model": self.model.name}
        await exchange.respond(200 if ready else 503, encode(body))

    async def _metrics(self, exchange: Exchange) -> None:
        text = self.metrics.text().encode()
        await exchange.respond(200, text, ((b"content-type", CONTENT_TYPE.encode()),))

    async def _models(self, exchange: Exchange) -> None:
        one = {
            "id": self.model.name,
            "object": "model",
            "type": "model",
            "display_name": self.model.name,
            "created": self.model.created,
            "owned_by": "unspool",
            "dialect": self.model.family,
        }
        wanted = exchange.path.removeprefix("/v1/models").strip("/")
        if not wanted:
            listed = {
                "object": "list",
                "data": [one],
                "has_more": False,
                "first_id": self.model.name,
                "last_id": self.model.name,
            }
            await exchange.respond(200, encode(listed))
        elif self.model.answers_to(wanted):
            await exchange.respond(200, encode(one))
        else:
            raise wrong_model(wanted, self.model.name)

    async def _parse(self, exchange: Exchange) -> None:
        body = await self._body(exchange)
        answer = await asyncio.to_thread(parse_body, body, self.model)
        await exchange.respond(200, encode(answer))

    async def _body(self, exchange: Exchange) -> dict[str, Any]:
        return decode(await exchange.body(self.settings.max_request_bytes, self.settings.client_timeout))

    def _check_model(self, body: Mapping[str, Any]) -> None:
        name = body.get("model")
        if name is not None and not (isinstance(name, str) and self.model.answers_to(name)):
            raise wrong_model(name, self.model.name)

    async def _count_tokens(self, exchange: Exchange) -> None:
        body = await self._body(exchange)
        self._check_model(body)
        job = messages_job({"max_tokens": 1, **body}, hosted=self.settings.hosted_tools)
        prompt = (await asyncio.to_thread(self._prepare, job, exchange)).prompt
        count = None
        if prompt is not None:
            count = await asyncio.to_thread(self.model.count, prompt)
            if count is None:
                count = await self.upstream.count(prompt)
        if count is None:
            raise Failure(
                "not_found",
                "nobody here can count tokens: the upstream does not, and model_dir names no tokenizer.json",
                code="not_found",
            )
        await exchange.respond(200, encode({"input_tokens": count}))

    # -- generation

    async def _generate_chat(self, exchange: Exchange) -> None:
        await self._generate(exchange, chat_job)

    async def _generate_responses(self, exchange: Exchange) -> None:
        hosted, recall = self.settings.hosted_tools, self.store.get
        await self._generate(exchange, lambda body: responses_job(body, hosted=hosted, recall=recall))

    async def _generate_messages(self, exchange: Exchange) -> None:
        await self._generate(exchange, lambda body: messages_job(body, hosted=self.settings.hosted_tools))

    async def _generate(self, exchange: Exchange, read: Callable[[Mapping[str, Any]], Job]) -> None:
        limit = self.settings.max_concurrency
        if limit and self.metrics.active.value() > limit:
            raise Failure("overloaded", f"more than {limit} requests at once; try again", code="overloaded")
        body = await self._body(exchange)
        self._check_model(body)
        job = read(body)
        for what in job.left_out:
            log_once("left out of requests", what)
        policies = self.model.policies
        if malformed_in_a_row(job.request["messages"]) >= self.settings.malformed_retries:
            policies = replace(policies, malformed_call="error")
        job.request["messages"] = without_spoilers(job.request["messages"])
        exchange.watch()
        if self.settings.log_contents:
            log(logging.INFO, "request contents", id=exchange.id, body=body)
        prepared = await asyncio.to_thread(self._prepare, job, exchange, policies)
        ids = self.settings.token_ids and self.model.tokenizer is not None
        task = Task(
            id=exchange.id,
            request=job.request,
            plan=prepared.plan,
            prompt=prepared.prompt,
            tools=prepared.tools,
            n=job.n,
            max_tokens=job.max_tokens,
            stop=job.stop,
            logprobs=job.logprobs,
            token_ids=job.token_ids or ids,
            schema=None if prepared.plan.forced else job.schema,
            sampling=job.sampling,
        )
        readers = [Reader(prepared.plan, ids=ids) for _ in range(job.n)]
        output = _Output(self, exchange, job, readers)
        try:
            stream = await self.upstream.open(task)
            try:
                await (output.stream(stream) if job.stream else output.whole(stream))
            finally:
                await stream.close()
        finally:
            output.count()

    def _prepare(self, job: Job, exchange: Exchange, policies: Policies | None = None) -> Prepared:
        """Plan and render; off the loop, because templates and schemas may be large."""
        prepare = partial(
            self.model.prepare,
            constraints=self.upstream.constraints,
            renders=self.upstream.renders,
            policies=policies,
        )
        try:
            prepared = prepare(job.request)
        except Failure:
            if not any(key in job.request for key in job.soft):
                raise
            # Clients of these APIs send such switches to every model.
            prepared, ignored = prepare_softly(prepare, job)
            for reason in ignored:
                log(logging.WARNING, "switch ignored", id=exchange.id, reason=reason)
        for warning in prepared.plan.warnings:
            log(logging.WARNING, "plan", id=exchange.id, warning=warning)
        return prepared

    def enter(self, exchange: Exchange) -> None:
        """A request begins."""
        self._active.add(exchange)
        self.metrics.active.add(amount=1)

    def exit(self, exchange: Exchange) -> None:
        """A request is over."""
        self._active.discard(exchange)
        self.metrics.active.add(amount=-1)
        exchange.unwatch()

    def check(self, exchange: Exchange, method: str, *, public: bool) -> None:
        """Refuse those who may not come in, or not like that."""
        self._guard.check_host(exchange)
        if not public:
            self._guard.check_key(exchange)
        if method and exchange.method.replace("HEAD", "GET") != method:
            told = f"{exchange.path} takes {method}, not {exchange.method}"
            raise Failure("invalid_request", told, code="method_not_allowed", status=405)


class _Output:
    """The output of one request, on its way from the upstream to the client."""

    def __init__(self, gateway: Gateway, exchange: Exchange, job: Job, readers: list[Reader]) -> None:
        self.gateway = gateway
        self.exchange = exchange
        self.job = job
        self.readers = readers
        self._first = False
        self._usage: Usage | None = None
        self._arguments = (job, gateway.model.name, readers)
        self._finish_reasons: Callable[[], list[FinishReason]] = list

    async def stream(self, stream: Stream) -> None:
        """Send while it comes in."""
        answer = ANSWERS[self.job.api](*self._arguments)
        self._finish_reasons = answer.finish_reasons
        self.exchange.failing = answer.failing
        await self.exchange.start(200, EVENTS)
        await self.exchange.send(answer.opening())
        self.exchange.ping = answer.ping
        while (batch := await stream.next()) is not None:
            data = self._encoded(batch, answer)
            if data:
                await self.exchange.send(data)
            if answer.failed:
                self.exchange.fields["error"] = "malformed_output"
                await self.exchange.send(answer.end, more=False)
                return
        answer.usage = self._counted()
        last = answer.closing()
        if isinstance(answer, ResponsesAnswer):
            self._keep(answer.response)
        await self.exchange.send(last, more=False)

    def _encoded(self, batch: Batch, answer: Answer) -> bytes:
        """All that one read brought, to be sent at once."""
        if isinstance(answer, ChatAnswer) and batch.prompt_token_ids is not None:
            answer.prompt_token_ids = batch.prompt_token_ids
        found: dict[int, list[Event]] = {}
        for delta in batch.deltas:
            events = self.readers[delta.choice].feed(delta)
            if delta.choice in found:
                found[delta.choice] += events
            else:
                found[delta.choice] = events
        self._bounded(batch)
        if self.job.continuous_usage:
            answer.usage = self._counted()
        out: list[bytes] = []
        for choice, events in found.items():
            if events:
                out.append(answer.feed(choice, events))
                self._see(events)
        return b"".join(out)

    async def whole(self, stream: Stream) -> None:
        """Send when all has come in."""
        answer = Whole(*self._arguments)
        self._finish_reasons = answer.finish_reasons
        while (batch := await stream.next()) is not None:
            answer.prompt_token_ids = batch.prompt_token_ids or answer.prompt_token_ids
            for delta in batch.deltas:
                events = self.readers[delta.choice].feed(delta)
                answer.feed(delta.choice, events)
                self._see(events)
            self._bounded(batch)
        answer.usage = self._counted()
        body = answer.body()
        if self.job.api == "responses":
            self._keep(body)
        await self.exchange.respond(200, encode(body))

    def _keep(self, response: Mapping[str, Any]) -> None:
        """Keep the conversation, if the request did not forbid it: another may go on from here."""
        if self.job.items is not None:
            said = [item for item in response["output"] if _can_be_answered(item)]
            self.gateway.store.put(response["id"], [*self.job.items, *said])

    def _see(self, events: list[Any]) -> None:
        if not self._first and any(isinstance(event, (Text, CallStart)) for event in events):
            self._first = True
            elapsed = time.monotonic() - self.exchange.began
            self.exchange.fields["first_delta"] = round(elapsed, 4)
            self.gateway.metrics.first_delta.observe(elapsed, self.job.api)

    def _bounded(self, batch: Batch) -> None:
        self._usage = batch.usage or self._usage
        limit = self.gateway.settings.max_output_bytes
        if sum([reader.size for reader in self.readers]) > limit:
            raise Failure("upstream", f"the output is larger than {limit} bytes", code="output_too_large")

    def _counted(self) -> Usage:
        """Token counts: the upstream's, else our own."""
        return self._usage or Usage(0, sum(reader.tokens for reader in self.readers))

    def count(self) -> None:
        """Tell metrics and the log what came of it."""
        metrics, usage = self.gateway.metrics, self._counted()
        dialect = self.readers[0].plan.dialect.name
        thoughts = sum(reader.reasoning_tokens for reader in self.readers)
        for kind, amount in (
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("reasoning", thoughts),
        ):
            if amount:
                metrics.tokens.add(kind, amount=amount)
        reasons = [
            reason
            for reader, reason in zip(self.readers, self._finish_reasons(), strict=False)
            if reader.finished
        ]
        for reason in reasons:
            metrics.ended.add(self.job.api, reason)
        for reader in self.readers:
            metrics.held.observe(reader.peak_held, dialect)
            for outcome, amount in reader.outcomes.items():
                metrics.outcomes.add(dialect, outcome, amount=amount)
        self.exchange.fields |= {
            "model": self.gateway.model.name,
            "dialect": dialect,
            "stream": self.job.stream,
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "finish_reasons": reasons,
            "outcomes": dict(sum((reader.outcomes for reader in self.readers), start=Counter())),
        }


def _can_be_answered(item: Mapping[str, Any]) -> bool:
    """Whether a conversation can go on from an item: not from half a call; what is wrong with one is told."""
    if item.get("status") != "incomplete" or "content" in item:
        return True
    return is_spoilt_as_malformed(str(item.get("arguments")))


class _Endpoint:
    """An ASGI application for one path: admission, errors, the log."""

    def __init__(
        self, gateway: Gateway, name: str, handler: Handler, method: str, *, public: bool = False
    ) -> None:
        self._gateway = gateway
        self._name = name
        self._handler = handler
        self._method = method
        self._public = public
        self._api: Api = JSON_ERROR_APIS.get(name, "chat")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(_REQUEST_ID.new("", 0), scope, receive, send)
        gateway = self._gateway
        gateway.enter(exchange)
        failed: Failure | None = None
        try:
            gateway.check(exchange, self._method, public=self._public)
            await self._handler(exchange)
        except Failure as failure:
            failed = failure
        except ClientGone:
            exchange.gone = "gone"
        except MalformedOutput as error:
            failed = Failure("upstream", str(error), code=error.kind)
        except asyncio.CancelledError:
            if not exchange.gone:
                await self._fail(
                    exchange, Failure("overloaded", "the gateway is shutting down", code="shutdown")
                )
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        except Exception:  # noqa: BLE001 - it is logged, and the client is told
            LOGGER.exception("internal error", extra={"fields": {"id": exchange.id, "api": self._name}})
            failed = Failure("internal", f"internal error; the log has more under {exchange.id}")
        finally:
            gateway.exit(exchange)
        if failed is not None:
            await self._fail(exchange, failed)
        self._report(exchange, failed)

    async def _fail(self, exchange: Exchange, failure: Failure) -> None:
        if not exchange.begun:
            body = encode(error_object(self._api, failure, exchange.id))
            await exchange.respond(failure.status, body, JSON)
        elif exchange.failing is not None:
            await exchange.send(exchange.failing(failure), more=False)

    def _report(self, exchange: Exchange, failed: Failure | None) -> None:
        metrics = self._gateway.metrics
        elapsed = time.monotonic() - exchange.began
        metrics.requests.add(self._name, str(exchange.status or 499))
        if self._name in JSON_ERROR_APIS:
            metrics.duration.observe(elapsed, self._name)
        level = logging.INFO if not self._public else logging.DEBUG
        fields = {"id": exchange.id, "api": self._name, "status": exchange.status or 499}
        fields |= {"seconds": round(elapsed, 4)} | exchange.fields
        if exchange.gone:
            metrics.clients_gone.add()
            fields["client"] = exchange.gone
        if failed is not None:
            if failed.kind in ("upstream", "timeout", "overloaded", "rate_limit") and failed.code.startswith(
                ("upstream", "output")
            ):
                metrics.upstream_errors.add(failed.code)
            fields |= {"error": failed.code, "param": failed.param}
            if failed.kind not in ("invalid_request", "authentication", "not_found", "too_large"):
                level = logging.WARNING
                fields["reason"] = failed.message
        log(level, "request", **fields)

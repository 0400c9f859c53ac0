"""A path of the gateway: admission, errors, the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ...dialects._id_format import IdFormat
from ...errors import MalformedOutput
from ..apis.answers import JSON_ERROR_APIS, encode, error_object
from ..apis.chat.request import Api
from ..telemetry.logs import LOGGER, log
from .errors import Failure, invalid
from .exchange import JSON, ClientGone, Exchange, Receive, Scope, Send

if TYPE_CHECKING:
    from ..app import Gateway

Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]

_REQUEST_ID: Final = IdFormat("req_{random}")


class Endpoint:
    """An ASGI application for one path: admission, errors, the log."""

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        handlers: Mapping[str, Handler],
        *,
        public: bool = False,
        quiet: bool = False,
    ) -> None:
        """Prepare to answer.

        :param handlers: by the method of the request; empty: for all others.
        :param public: no key is asked for.
        :param quiet: the log tells of failures only, and so it does of what is public.
        """
        self._gateway = gateway
        self._name = name
        self._handlers = handlers
        self._public = public
        self._level = logging.DEBUG if public or quiet else logging.INFO
        self._api: Api = "ollama" if name.startswith("ollama") else JSON_ERROR_APIS.get(name, "chat")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(_REQUEST_ID.new("", 0), scope, receive, send)
        gateway = self._gateway
        gateway.enter(exchange)
        failed: Failure | None = None
        try:
            gateway.check(exchange, public=self._public)
            await self._handler(exchange.method)(exchange)
        except Failure as failure:
            # Its traceback holds this frame, and this frame would hold it: the request would stay until
            # somebody collects garbage, with all of its body.
            failed = failure.with_traceback(None)
        except ClientGone:
            exchange.gone = "gone"
        except MalformedOutput as error:
            failed = Failure("upstream", str(error), code=error.kind)
        except asyncio.CancelledError:
            # The request ends here in any case; to raise it would be a traceback in the server's log.
            if not exchange.gone:
                failed = Failure("overloaded", "the gateway is shutting down", code="shutdown")
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        except RecursionError:
            failed = invalid("the request is nested too deeply")
        except Exception:  # noqa: BLE001 - it is logged, and the client is told
            LOGGER.exception("internal error", extra={"fields": {"id": exchange.id, "api": self._name}})
            failed = Failure("internal", f"internal error; the log has more under {exchange.id}")
        try:
            if failed is not None:
                await self._fail(exchange, failed)
        except asyncio.CancelledError:
            exchange.gone = exchange.gone or "shutdown"
        finally:
            gateway.exit(exchange)
        self._report(exchange, failed)

    def _handler(self, method: str) -> Handler:
        found = self._handlers.get(method.replace("HEAD", "GET")) or self._handlers.get("")
        if found is None:
            known = " or ".join(self._handlers)
            told = f"this path takes {known}, not {method}"
            raise Failure("invalid_request", told, code="method_not_allowed", status=405)
        return found

    async def _fail(self, exchange: Exchange, failure: Failure) -> None:
        if not exchange.begun:
            body = encode(error_object(self._api, failure, exchange.id))
            later = ((b"retry-after", failure.retry_after.encode("latin-1")),) if failure.retry_after else ()
            await exchange.respond(failure.status, body, (*JSON, *later))
        elif exchange.failing is not None:
            await exchange.send(exchange.failing(failure), more=False)

    def _report(self, exchange: Exchange, failed: Failure | None) -> None:
        if exchange.note is not None:
            exchange.note.over(exchange, failed)
        metrics = self._gateway.metrics
        elapsed = time.monotonic() - exchange.began
        metrics.requests.add(self._name, str(exchange.status or 499))
        if self._name in JSON_ERROR_APIS:
            metrics.duration.observe(elapsed, self._name)
        level = self._level
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
            if failed.detail:
                fields["detail"] = failed.detail
        log(level, "request", **fields)

"""ASGI application for one path, with authentication, error responses, metrics and logging."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from starlette.routing import Route

from ...dialects import IdFormat
from ...errors import MalformedOutput
from ..telemetry.logs import LOGGER, log
from ..telemetry.metrics import Metrics
from .active_requests import ActiveRequests
from .auth import Authenticator
from .exchange import JSON, ClientGone, Exchange, Receive, Scope, Send
from .failure import Failure, invalid
from .json_encoding import encode_line
from .trace_context import RequestIds

Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]

_REQUEST_ID: Final = IdFormat("req_{random}")
_CLIENT_CLOSED: Final = 499
"""Status in metrics and logs for a request whose client disconnected before the response started."""


class ErrorFormat(Protocol):
    """Function that converts a failure to the error format of one API."""

    def __call__(self, failure: Failure, request_id: str | None = None) -> Mapping[str, Any]:
        """Return the body of the error response."""
        ...


class Endpoints:
    """Factory for the gateway's endpoints, which share authentication and metrics."""

    def __init__(
        self, active: ActiveRequests, auth: Authenticator, metrics: Metrics, error_format: ErrorFormat
    ) -> None:
        """Create a factory.

        :param error_format: default format of error bodies.
        """
        self.active = active
        self.auth = auth
        self.metrics = metrics
        self._error_format = error_format
        self.ids = RequestIds()

    def route(self, path: str, name: str, **options: Any) -> Route:
        """Return the route of a path; see :meth:`endpoint`."""
        return Route(path, self.endpoint(name, **options))

    def endpoint(
        self,
        name: str,
        *,
        public: bool = False,
        quiet: bool = False,
        timed: bool = False,
        errors: ErrorFormat | None = None,
        **handlers: Handler,
    ) -> Endpoint:
        """Return an endpoint.

        :param name: the API's name in metrics and logs.
        :param public: requests need no API key.
        :param quiet: log successful requests at level DEBUG; public endpoints always do this.
        :param timed: record the duration of requests in the metrics.
        :param errors: the format of error bodies; by default, the factory's default format.
        :param handlers: handlers by HTTP method; ``ANY`` handles all other methods.
        """
        return Endpoint(
            self, name, handlers, public=public, quiet=quiet, timed=timed, errors=errors or self._error_format
        )


class Endpoint:
    """ASGI application for one path."""

    def __init__(
        self,
        shared: Endpoints,
        name: str,
        handlers: Mapping[str, Handler],
        *,
        public: bool,
        quiet: bool,
        timed: bool,
        errors: ErrorFormat,
    ) -> None:
        self._active = shared.active
        self._auth = shared.auth
        self._metrics = shared.metrics
        self._ids = shared.ids
        self._name = name
        self.handlers = handlers
        self._public = public
        self._level = logging.DEBUG if public or quiet else logging.INFO
        self._timed = timed
        self._error_format = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(_REQUEST_ID.new("", 0), scope, receive, send)
        id = exchange.header(b"x-request-id")
        if id and self._ids.claim(id):
            exchange.id = id
        self._active.enter(exchange)
        failure: Failure | None = None
        try:
            self._auth.check_host(exchange)
            if not self._public:
                self._auth.authenticate(exchange)
            await self._find_handler(exchange.method)(exchange)
        except Failure as error:
            # The traceback refers to this function's frame, and the frame refers to the failure.  Drop the
            # traceback: the cycle would keep the request in memory until the next garbage collection.
            failure = error.with_traceback(None)
        except ClientGone:
            exchange.disconnected = "gone"
        except MalformedOutput as error:
            failure = Failure("upstream", str(error), code=error.kind, is_final=True)
        except asyncio.CancelledError:
            # Do not re-raise: the request ends here anyway, and the server would log a traceback.
            if not exchange.disconnected:
                failure = Failure("overloaded", "the gateway is shutting down", code="shutdown")
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
        except RecursionError:
            failure = invalid("the request is nested too deeply")
        except Exception:  # noqa: BLE001 - it is logged, and the client gets an error
            LOGGER.exception("internal_error", extra={"fields": {"id": exchange.id, "api": self._name}})
            failure = Failure("internal", f"internal error; see {exchange.id} in the gateway's log")
        try:
            if failure is not None:
                await self._send_error(exchange, failure)
        except asyncio.CancelledError:
            exchange.disconnected = exchange.disconnected or "shutdown"
        finally:
            self._active.exit(exchange)
            self._ids.release(exchange.id)
        self._report(exchange, failure)

    def _find_handler(self, method: str) -> Handler:
        handler = self.handlers.get(method.replace("HEAD", "GET")) or self.handlers.get("ANY")
        if handler is None:
            message = f"this path accepts {' or '.join(self.handlers)}, not {method}"
            raise Failure("invalid_request", message, code="method_not_allowed", status=405)
        return handler

    async def _send_error(self, exchange: Exchange, failure: Failure) -> None:
        """Send the failure: as an error response, or as the end of a response that has already started."""
        if not exchange.started:
            body = encode_line(self._error_format(failure, exchange.id))
            headers = [*JSON, *failure.headers]
            if failure.retry_after:
                headers.append((b"retry-after", failure.retry_after.encode("latin-1")))
            if failure.is_final:
                headers.append((b"x-should-retry", b"false"))  # SDKs repeat requests after other 5xx errors
            await exchange.respond(failure.status, body, headers)
        elif exchange.failing is not None:
            await exchange.send(exchange.failing(failure), more=False)

    def _report(self, exchange: Exchange, failure: Failure | None) -> None:
        """Log a request that has ended, and record it in the metrics."""
        if exchange.on_finish is not None:
            exchange.on_finish(exchange, failure)
        metrics = self._metrics
        elapsed = time.monotonic() - exchange.started_at
        status = exchange.status or _CLIENT_CLOSED
        metrics.requests.add(self._name, str(status))
        if self._timed:
            metrics.duration.observe(elapsed, self._name)
        level = self._level
        fields = {
            "id": exchange.id,
            "api": self._name,
            "path": exchange.path,
            "address": exchange.address,
            "status": status,
            "seconds": round(elapsed, 4),
        }
        if exchange.key is not None:
            fields["key"] = exchange.key.name
        if trace := exchange.trace_id:
            fields["trace_id"] = trace
        fields |= exchange.log_fields
        if exchange.disconnected:
            metrics.clients_gone.add()
            fields["client"] = exchange.disconnected
        if failure is not None:
            if failure.kind in (
                "upstream",
                "timeout",
                "overloaded",
                "rate_limit",
            ) and failure.code.startswith(("upstream", "output")):
                metrics.upstream_errors.add(failure.code)
            fields |= {"error": failure.code, "param": failure.param}
            if failure.kind not in ("invalid_request", "authentication", "not_found", "too_large"):
                level = logging.WARNING
                fields["reason"] = failure.message
            if failure.detail:
                fields["detail"] = failure.detail
        log(level, "request", **fields)

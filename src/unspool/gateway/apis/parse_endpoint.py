"""Handler for ``/v1/parse``, which parses a model's output into a message and events."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Literal

import msgspec

from ...dialects import Dialect, get_dialect
from ...errors import MalformedOutput, UnspoolError, UsageError
from ...events import Event, normalise
from ...models.detection.detect_dialect import detect
from ...parser import Parser
from ...templates import NoRenderer, isolated_renderer
from ..generation.model import Model
from ..generation.prepare_request import renderer_unavailable
from ..generation.served_models import ServedModels
from ..http.exchange import Exchange
from ..http.failure import Failure, invalid
from ..http.json_encoding import encode_line
from ..http.request_body import BodyReader
from ..http.thread_pools import WorkerPools
from .validation import decode_body

_TIMEOUT: Final = 10.0
"""Time limit for parsing, in seconds."""
_MAX_FEED: Final = 1 << 16
"""Maximum number of characters per call of the parser; the time limit is checked between two calls."""


class ParseBody(msgspec.Struct):
    """Body of a ``/v1/parse`` request."""

    text: str | None = None
    chunks: list[str] | None = None
    """Alternative to ``text``: the list of chunks in which the text was streamed."""
    dialect: str = "auto"
    """Name of the dialect.

    ``auto`` detects the dialect from ``chat_template``.  If there is no ``chat_template``, it selects the
    dialect of the gateway's model.
    """
    chat_template: str | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | None = None
    policies: str | dict[str, str] | None = None
    """Name of a preset, or an object that maps policy names to values."""
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class ParseHandler:
    """Handler for ``/v1/parse`` requests."""

    def __init__(
        self,
        models: ServedModels,
        bodies: BodyReader,
        pools: WorkerPools,
        *,
        max_output_bytes: int,
        request_templates: bool,
    ) -> None:
        """Create a handler.

        :param request_templates: allow requests to contain a chat template.
        """
        self._models = models
        self._bodies = bodies
        self._pools = pools
        self._limit = max_output_bytes
        self._templates = request_templates

    async def parse(self, exchange: Exchange) -> None:
        """Parse the model output in the request, and send the resulting message and events."""
        body = await self._bodies.read(exchange)
        model = self._models.find(body.get("model"), exchange.allowed_models).model
        runs_template = self._templates and body.get("chat_template")
        pool = self._pools.templates if runs_template else self._pools.parsing
        data = await pool.run(
            exchange.client, parse_body, body, model, self._limit, templates=self._templates
        )
        await exchange.respond(200, data)


def parse_body(body: Mapping[str, Any], model: Model, limit: int, *, templates: bool) -> bytes:
    """Parse the text in a request body, and return the encoded response.

    :param limit: approximate maximum size of the response in bytes; limits the text and the number of events.
    :param templates: allow the request to contain a chat template.
    """
    shape = decode_body(body, ParseBody)
    if shape.chat_template is not None and not templates:
        raise invalid(
            "chat_template is disabled; enable request_templates in the gateway's settings",
            "chat_template",
            "unsupported_parameter",
        )
    if (shape.text is None) == (shape.chunks is None):
        raise invalid("send either text or chunks", "text")
    limits = _Limits(limit)
    limits.check_text(sum(map(len, shape.chunks or (shape.text or "",))))
    dialect, evidence = _find_dialect(shape, model)
    chunks = [shape.text] if shape.text is not None else shape.chunks or []
    try:
        parser = Parser(
            dialect,
            tools=shape.tools,
            prompt=shape.prompt,
            policies=shape.policies,
        )
    except UnspoolError as error:
        message = str(error)
        field = re.search(r"\b(tools|prompt)\b", message)
        raise invalid(message, field[0] if field else "policies") from error
    builder = parser.fold()
    event_dicts: list[dict[str, Any]] = []
    try:
        for index, chunk in enumerate(chunks):
            events = _feed(parser, chunk, limits)
            builder.feed(events)
            event_dicts += [{**event.to_dict(), "chunk": index} for event in events]
            limits.check_events(len(event_dicts))
        events = parser.finish(shape.finish_reason)
        builder.feed(events)
        event_dicts += [{**event.to_dict(), "chunk": len(chunks)} for event in events]
        limits.check_events(len(event_dicts))
        parsed = builder.message
    except MalformedOutput as error:
        raise invalid(str(error), "text", error.kind) from error
    response = {
        "dialect": parser.dialect.name,
        "evidence": evidence,
        "message": parsed.to_chat(broken="poison"),
        "finish_reason": parsed.finish_reason,
        "parts": [{"kind": type(part).__name__, **asdict(part)} for part in parsed.parts],
        "diagnostics": [diagnostic.to_dict() for diagnostic in parsed.diagnostics],
        "events": event_dicts,
    }
    return encode_line(response)


class _Limits:
    """Limits on the size and duration of one ``/v1/parse`` request."""

    def __init__(self, limit: int) -> None:
        self._max_characters = limit // 4
        self._max_events = limit // 256
        self._deadline = time.monotonic() + _TIMEOUT

    def check_text(self, length: int) -> None:
        """Reject text that is too long."""
        if length > self._max_characters:
            raise _too_large(f"the text has {length} characters; send at most {self._max_characters}")

    def check_events(self, count: int) -> None:
        """Reject text that produces too many events."""
        if count > self._max_events:
            raise _too_large(
                f"the text produces more than {self._max_events} events; send less text or fewer chunks"
            )

    def check_time(self) -> None:
        """Reject text that takes too long to parse."""
        if time.monotonic() > self._deadline:
            raise _too_large(f"parsing takes longer than {_TIMEOUT:g} seconds; send less text")


def _too_large(message: str) -> Failure:
    return Failure("too_large", message, param="text", code="parse_too_large")


def _feed(parser: Parser, chunk: str, limits: _Limits) -> list[Event]:
    """Parse a chunk and return its events; pass a long chunk to the parser in several calls."""
    limits.check_time()
    if len(chunk) <= _MAX_FEED:
        return parser.feed(chunk)
    events: list[Event] = []
    for start in range(0, len(chunk), _MAX_FEED):
        limits.check_time()
        events += parser.feed(chunk[start : start + _MAX_FEED])
    return normalise(events)


def _get_dialect(name: str) -> Dialect:
    try:
        return get_dialect(name)
    except UsageError as error:
        raise invalid(str(error).partition("\n")[0], "dialect") from error


def _find_dialect(shape: ParseBody, model: Model) -> tuple[str | Dialect, list[str]]:
    """Return the dialect to parse with, and the evidence for it."""
    if shape.dialect != "auto" and shape.chat_template is not None:
        raise invalid("send either dialect or chat_template", "chat_template")
    if shape.dialect != "auto":
        return _get_dialect(shape.dialect), [f"The request names {shape.dialect}."]
    if shape.chat_template is None:
        dialect = _get_dialect(model.dialect) if isinstance(model.dialect, str) else model.dialect
        return dialect, [f"It is the dialect of this gateway's model, {model.name}."]
    try:
        with isolated_renderer():
            detection = detect({"chat_template": shape.chat_template})
    except NoRenderer as error:
        raise renderer_unavailable(error) from error
    except UnspoolError as error:
        raise invalid(str(error), "chat_template") from error
    if detection.dialect is None:
        message = f"cannot detect the dialect from the template: {detection.evidence[0]}"
        raise invalid(message, "chat_template")
    return detection.dialect, list(detection.evidence)

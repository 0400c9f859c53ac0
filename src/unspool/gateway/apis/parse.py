"""``/v1/parse``: an output in, its message and events out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Literal

import msgspec

from ...chat_templates import NoRenderer
from ...chat_templates._render_pool import apart
from ...dialects._declaration import Dialect
from ...errors import MalformedOutput, UnspoolError
from ...events import Event, event_fields, normalise
from ...models._detection.detect import detect
from ...parser import Parser
from ...policies import Policies
from ...wire import ChatStream
from ..generation.model import Model, find_dialect, no_renderer
from ..generation.served_models import ServedModels
from ..http.errors import Failure, invalid
from ..http.exchange import Exchange
from ..http.json_encoding import encode_line
from ..http.request_body import BodyReader
from ..http.worker_pools import WorkerPools
from .validation import checked

_SECONDS: Final = 10.0
"""How long a text may take."""
_PIECE: Final = 1 << 16
"""Characters that are read at once."""


class ParseBody(msgspec.Struct):
    """What is to be parsed."""

    text: str | None = None
    chunks: list[str] | None = None
    """The pieces that the text came in."""
    dialect: str = "auto"
    """auto: told by ``chat_template``, else that of the gateway's model."""
    chat_template: str | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | None = None
    policies: dict[str, str] | None = None
    strict: bool = False
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None = None


class ParseHandler:
    """Handler of requests to parse an output."""

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

        :param request_templates: requests may bring a chat template.
        """
        self._models = models
        self._bodies = bodies
        self._pools = pools
        self._limit = max_output_bytes
        self._templates = request_templates

    async def parse(self, exchange: Exchange) -> None:
        """Send the message and the events of an output."""
        body = await self._bodies.read(exchange)
        model = self._models.find(body.get("model")).model
        runs_template = self._templates and body.get("chat_template")
        pool = self._pools.templates if runs_template else self._pools.parsing
        data = await pool.run(
            exchange.client, parse_body, body, model, self._limit, templates=self._templates
        )
        await exchange.respond(200, data)


def parse_body(body: Mapping[str, Any], model: Model, limit: int, *, templates: bool) -> bytes:
    """The answer to a request to parse.

    :param limit: bytes of an answer, which repeats the text thrice and tells every event.
    :param templates: the request may bring a template.
    """
    shape = checked(body, ParseBody)
    if shape.chat_template is not None and not templates:
        raise invalid(
            "chat_template: no templates of requests are run here; the setting request_templates allows them",
            "chat_template",
            "unsupported_parameter",
        )
    if (shape.text is None) == (shape.chunks is None):
        raise invalid("give either text or chunks", "text")
    bounds = _Bounds(limit)
    bounds.check_text(sum(map(len, shape.chunks or (shape.text or "",))))
    dialect, evidence = _dialect(shape, model)
    chunks = [shape.text] if shape.text is not None else shape.chunks or []
    try:
        parser = Parser(
            dialect,
            tools=shape.tools,
            prompt=shape.prompt,
            policies=Policies.from_mapping(shape.policies) if shape.policies else None,
            strict=shape.strict,
        )
    except UnspoolError as error:
        told = str(error)
        named = [name for name in ("tools", "prompt", "policies", "strict") if name in told]
        raise invalid(told, named[0] if named else "policies") from error
    fold = parser.fold()
    listed: list[dict[str, Any]] = []
    try:
        for number, chunk in enumerate(chunks):
            events = _fed(parser, chunk, bounds)
            fold.push(events)
            listed += [{**event_fields(event), "chunk": number} for event in events]
            bounds.check_events(len(listed))
        events = parser.finish(shape.finish_reason)
        fold.push(events)
        listed += [{**event_fields(event), "chunk": len(chunks)} for event in events]
        bounds.check_events(len(listed))
        message = fold.message()
    except MalformedOutput as error:
        raise invalid(str(error), "text", error.kind) from error
    answer = {
        "dialect": parser.dialect.name,
        "evidence": evidence,
        "message": ChatStream(parser).message(message),
        "finish_reason": message.finish_reason,
        "parts": [{"kind": type(part).__name__, **asdict(part)} for part in message.parts],
        "diagnostics": [diagnostic.to_dict() for diagnostic in message.diagnostics],
        "events": listed,
    }
    return encode_line(answer)


class _Bounds:
    """What a request to parse may cost."""

    def __init__(self, limit: int) -> None:
        self._most = limit // 4
        self._most_events = limit // 256
        self._deadline = time.monotonic() + _SECONDS

    def check_text(self, length: int) -> None:
        if length > self._most:
            raise _too_much(f"{length} characters: this takes {self._most}")

    def check_events(self, count: int) -> None:
        if count > self._most_events:
            raise _too_much(f"more than {self._most_events} events: send less, or in fewer chunks")

    def check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _too_much(f"this takes longer than {_SECONDS:g} seconds: send less")


def _too_much(told: str) -> Failure:
    return Failure("too_large", told, param="text", code="parse_too_large")


def _fed(parser: Parser, chunk: str, bounds: _Bounds) -> list[Event]:
    """The events of a chunk; a long one is cut, because nobody else runs while it is read."""
    bounds.check_time()
    if len(chunk) <= _PIECE:
        return parser.feed(chunk)
    events: list[Event] = []
    for at in range(0, len(chunk), _PIECE):
        bounds.check_time()
        events += parser.feed(chunk[at : at + _PIECE])
    return normalise(events)


def _dialect(shape: ParseBody, model: Model) -> tuple[str | Dialect, list[str]]:
    if shape.dialect != "auto" and shape.chat_template is not None:
        raise invalid("give either dialect or chat_template", "chat_template")
    if shape.dialect != "auto":
        return find_dialect(shape.dialect), [f"The request names {shape.dialect}."]
    if shape.chat_template is None:
        return find_dialect(model.dialect) if isinstance(model.dialect, str) else model.dialect, [
            f"This gateway's model, {model.name}, writes it."
        ]
    try:
        with apart():
            found = detect({"chat_template": shape.chat_template})
    except NoRenderer as error:
        raise no_renderer(error) from error
    except UnspoolError as error:
        raise invalid(str(error), "chat_template") from error
    if found.dialect is None:
        raise invalid(f"the template does not tell the dialect: {found.evidence[0]}", "chat_template")
    return found.dialect, list(found.evidence)

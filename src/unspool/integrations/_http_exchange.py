"""Repair of HTTP exchanges with a server that leaves markup in the text.

The transports in ``httpx.py`` and ``httpx2.py`` do all I/O.  An exchange has these steps:

1. ``Reading.open()`` plans a request and returns the exchange, or None if the response must not change.
2. ``Exchange.request_body`` is sent to the server.  If no engine is set, this body is the client's own.
3. ``Exchange.read_whole()`` or ``Exchange.stream()`` repairs a response with the status 200.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ..dialects import Dialect
from ..errors import MalformedOutput, ProtocolError, UsageError
from ..planning import ContentParsers, Plan, plan, special_token_fields
from ..policies import Policies
from ..wire import (
    DONE,
    ChatRepair,
    ChoiceReader,
    Chunk,
    EventReader,
    MessagesRepair,
    SurrogateJoiner,
    error_chunk,
    error_event,
    sse,
)

Api: TypeAlias = Literal["chat", "messages"]
EngineName: TypeAlias = Literal["vllm", "sglang", "llamacpp"]

AUTO: Final = "auto"
"""Value of ``dialect`` that selects the dialect by the name of the model."""
_ENGINES: Final = ("vllm", "sglang", "llamacpp")
_MAX_EVENT: Final = 1 << 26
"""Maximum size of one event, in bytes."""


def api_of(method: str, path: str) -> Api | None:
    """Return the API of an endpoint that generates messages; None for all other endpoints."""
    if method == "POST" and path.endswith("/chat/completions"):
        return "chat"
    return "messages" if method == "POST" and path.endswith("/messages") else None


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of a transport for parsing the output of the server's models."""

    dialect: str | Dialect
    engine: EngineName | None
    policies: Policies

    @classmethod
    def create(
        cls, dialect: str | Dialect, template: str | None, engine: EngineName | None, policies: Policies
    ) -> Reading:
        """Create the settings, and raise an error if they are not valid.

        :param template: chat template from which to detect the dialect.
        """
        if engine is not None and engine not in _ENGINES:
            raise UsageError(f"engine={engine!r}: choose one of {', '.join(_ENGINES)}, or leave it out")
        if template is not None:
            if dialect != AUTO:
                raise UsageError('pass either a dialect, or dialect="auto" and a template')
            dialect = _detect(template)
        if dialect != AUTO:
            plan(
                dialect, {"messages": [{"role": "user", "content": ""}]}
            )  # raises an error if there is no such dialect
        return cls(dialect, engine, policies)

    def open(self, api: Api, data: bytes) -> Exchange | None:
        """Plan a request; return None if its body is not a request of the API.

        :raises UsageError: if the output cannot be parsed, for example because the dialect is unknown.
        """
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return None
        request = body if api == "chat" else _chat_request(body)
        request_plan = plan(self._dialect_of(body), request, constraints=(), policies=self.policies)
        if self.engine is not None and api == "chat":
            data = json.dumps(_with_engine_fields(body, request_plan, self.engine)).encode()
        return Exchange(api, data, request_plan)

    def _dialect_of(self, body: Mapping[str, Any]) -> str | Dialect:
        if self.dialect != AUTO:
            return self.dialect
        from ..dialects.model_names import known_model

        name = body.get("model")
        model = known_model(name) if isinstance(name, str) else None
        if model is None:
            raise UsageError(
                f"the dialect of the model {name!r} is unknown: create the transport with the "
                "name of a dialect (`unspool dialects` lists them), or with the chat template of the model"
            )
        return model.dialect


def _detect(template: str) -> Dialect:
    from ..models.detection.detect_dialect import detect_dialect
    from ..models.sources import read_source

    detection = detect_dialect(read_source({"chat_template": template}))
    if detection.dialect is None or detection.inferred:
        raise UsageError("no registered dialect can parse what this chat template renders: pass a dialect")
    return detection.dialect


def _with_engine_fields(body: dict[str, Any], request_plan: Plan, engine: EngineName) -> dict[str, Any]:
    """Return a request with the fields that make the engine leave all markup in the text."""
    out = {**body, **special_token_fields(request_plan, engine)}
    if request_plan.chat_template_kwargs:
        out["chat_template_kwargs"] = dict(request_plan.chat_template_kwargs)
    if engine == "vllm" and body.get("tools"):
        out["tool_choice"] = "none"  # vLLM still shows the tools to the model, but does not parse the calls
    return out


def _chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a Messages request that a plan needs, converted to Chat Completions format."""
    last = body["messages"][-1] if body["messages"] else {}
    request: dict[str, Any] = {"messages": [last]}
    if isinstance(last, Mapping) and last.get("role") == "assistant":
        request["continue_final_message"] = True
    tools = [
        {"type": "function", "function": {"name": tool.get("name"), "parameters": tool.get("input_schema")}}
        for tool in body.get("tools") or ()
        if isinstance(tool, Mapping) and tool.get("input_schema") is not None
    ]
    if tools:
        request["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and tools:
        names = {"auto": "auto", "any": "required", "none": "none"}
        request["tool_choice"] = names.get(choice.get("type", "auto"), "auto")
        if choice.get("type") == "tool":
            request["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
        request["parallel_tool_calls"] = not choice.get("disable_parallel_tool_use")
    thinking = body.get("thinking")
    if isinstance(thinking, Mapping):
        request["thinking"] = {key: thinking[key] for key in ("type", "budget_tokens") if key in thinking}
    return request


class Exchange:
    """One request, and the code that repairs its response."""

    def __init__(self, api: Api, request_body: bytes, request_plan: Plan) -> None:
        self.api: Api = api
        self.request_body = request_body
        """Body to send to the server."""
        self._plan = request_plan
        self._content_parsers = ContentParsers(request_plan)

    def new_repair(self) -> ChatRepair | MessagesRepair:
        """Return a new object that repairs the response."""
        if self.api == "messages":
            return MessagesRepair(self._plan.parser(), self._content_parsers)
        return ChatRepair(
            lambda: ChoiceReader(
                self._plan.parser(),
                self._content_parsers,
                include_reasoning=self._plan.include_reasoning,
            )
        )

    def read_whole(self, data: bytes) -> tuple[int, bytes]:
        """Return the status and the repaired body of a response that is not streamed."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return 200, data
        marker, value = ("type", "message") if self.api == "messages" else ("object", "chat.completion")
        if not isinstance(body, dict) or body.get(marker, value) != value:
            return 200, data
        try:
            return 200, json.dumps(self.new_repair().response(body)).encode()
        except (MalformedOutput, ProtocolError) as error:
            return 502, error_body(self.api, error)

    def stream(self) -> StreamRepair:
        """Return a new object that repairs the response, which is a stream of events."""
        return StreamRepair(self.api, self.new_repair())


class StreamRepair:
    """Repair of a stream of server-sent events, which takes and returns bytes.

    The result does not depend on how the bytes are split.
    """

    def __init__(self, api: Api, repair: ChatRepair | MessagesRepair) -> None:
        self.failed = False
        """True after an error; the rest of the stream need not be read."""
        self._ended = False
        """True after an error or the end marker; the rest of the stream is ignored."""
        self._api = api
        self._repair = repair
        self._events = EventReader(_MAX_EVENT)
        self._surrogates = SurrogateJoiner()

    def feed(self, data: bytes) -> bytes:
        """Read more bytes of the server's stream, and return the repaired events."""
        try:
            return b"".join(map(self._read, self._events.feed(data)))
        except ProtocolError as error:
            return self._fail(error)

    def finish(self) -> bytes:
        """End the stream, and return the events that were held back."""
        out = b"".join(map(self._read, self._events.finish()))
        if not self._ended:
            self._ended = True
            repair = self._repair
            chunks = repair.finish(end_marked=False) if isinstance(repair, ChatRepair) else repair.finish()
            out += self._encode(chunks)
        return out

    def _read(self, payload: bytes) -> bytes:
        if self._ended:
            return b""
        repair = self._repair
        if payload == b"[DONE]" and isinstance(repair, ChatRepair):
            self._ended = True
            return self._encode(repair.finish(end_marked=True)) + DONE.encode()
        try:
            chunk = json.loads(payload)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict) or (
            self._api == "messages" and not isinstance(chunk.get("type"), str)
        ):
            return b"data: %b\n\n" % payload.replace(b"\n", b"\ndata: ")
        try:
            if b"\\u" in payload:
                chunk = self._surrogates.join(chunk)
            out = self._encode(repair.feed(chunk))
        except ProtocolError as error:
            return self._fail(error)
        if repair.failed:
            self.failed = self._ended = True
            out += self._end
        return out

    @property
    def _end(self) -> bytes:
        """Return the event that ends a stream after an error."""
        return DONE.encode() if self._api == "chat" else b""

    def _encode(self, chunks: list[Chunk]) -> bytes:
        return "".join(map(sse, chunks)).encode()

    def _fail(self, error: ProtocolError) -> bytes:
        self.failed = self._ended = True
        chunk = error_chunk(str(error), code="upstream_protocol")
        if self._api == "messages":
            chunk = error_event(str(error))
        return self._encode([chunk]) + self._end


def error_body(api: Api, error: Exception) -> bytes:
    """Return the body of an error response in the format of the API."""
    kind = "invalid_request_error" if isinstance(error, UsageError) else "api_error"
    if api == "messages":
        return json.dumps(error_event(str(error), kind=kind)).encode()
    code = error.kind if isinstance(error, MalformedOutput) else None
    return json.dumps(error_chunk(str(error), kind=kind, code=code)).encode()

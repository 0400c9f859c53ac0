"""Encoder for Ollama's ``/api/chat`` and ``/api/generate``, streamed and not streamed.

Arguments are objects in this API, so the encoder sends a call only when it is complete.  Clients never
receive a malformed or truncated call: depending on the policies ``malformed_call`` and ``truncated_call``,
the text of such a call is sent as content or left out.  With ``malformed_call="call"``, a malformed call is
an error, because the API cannot express such a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from .._core.conversions.chat import reason_of
from .._core.conversions.make_broken_arguments_unparsable import load_object, unsendable_call
from ..errors import MalformedOutput
from ..events import (
    CallArgs,
    CallEnd,
    CallStart,
    Channel,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    Text,
)
from ..message import BrokenCall, Message, ToolCall
from ..parser import Parser
from ._base_encoder import Chunk, StreamEncoder
from ._compatibility_options import WireChoice
from ._usage import AnyUsage

Form = Literal["chat", "generate"]
_DONE_REASONS: Final = {"length": "length"}
"""Value of ``done_reason`` for each finish reason; every other finish reason becomes ``stop``."""


class OllamaStream(StreamEncoder):
    """Encoder that turns the events of a parser into the lines of an Ollama stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        options: WireChoice | None = None,
        form: Form = "chat",
        created: float | None = None,
        load_arguments: Callable[[str], object] = json.loads,
    ) -> None:
        """Create an encoder.

        :param form: endpoint to encode for: ``/api/chat`` or ``/api/generate``.
        :param created: Unix time of the response; None for the current time.
        :param load_arguments: function that converts a call's arguments from JSON text to an object.
        """
        super().__init__(parser, model, options)
        self.form = form
        when = datetime.now(UTC) if created is None else datetime.fromtimestamp(created, UTC)
        self.created = when.isoformat().replace("+00:00", "Z")
        self._load_arguments = load_arguments
        self._open_call: CallStart | None = None
        self._arguments: list[str] = []
        self._call_count = 0

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason so far, as Chat Completions reports it."""
        # A malformed call is never sent in this format, so it does not affect the finish reason.
        return self._reported(self._filter.finish_reason)

    def feed(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> list[Chunk]:
        """Return the objects for parser events; each object becomes one line of the stream."""
        self._count(usage)
        out: list[Chunk] = []
        for event in self._filter.feed(events):
            if self._closed and self._skips(event):
                break
            if isinstance(event, Text):
                if event.text:
                    out.append(self._text_line(event.channel, event.text))
            elif isinstance(event, CallArgs):
                self._arguments.append(event.json)
                self._calls.add_arguments(event.json)
            elif isinstance(event, (CallStart, CallEnd, Diagnostic, Finish)):
                try:
                    out += self._encode_boundary(event)
                except MalformedOutput as error:
                    self.failed = self._closed = True
                    out.append(ollama_error(str(error)))
        return out

    def _encode_boundary(self, event: CallStart | CallEnd | Diagnostic | Finish) -> list[Chunk]:
        """Return the lines for the start or end of a call, a diagnostic, or the end of the output."""
        if isinstance(event, CallStart):
            self._calls.open_call(event)
            self._open_call, self._arguments = event, []
            return []
        if isinstance(event, Diagnostic):
            error = self._calls.record_diagnostic(event)
        else:
            error = self._calls.policy_error(event)
        if error is not None:
            raise error
        if isinstance(event, Diagnostic):
            return []
        if isinstance(event, Finish):
            self._closed = True
            return [self._last_line(self._message("content", ""), self.finish_reason)]
        start = self._open_call
        assert start is not None  # noqa: S101 - the parser opens a call before it ends one
        arguments = "".join(self._arguments)
        self._calls.close_call(event.status)
        channel, whitespace = self._filter.contexts.pop(event.index, ("content", ""))
        if event.status == "complete":
            return [self._line({"tool_calls": [self._call(start.id, start.name, arguments)]})]
        policy = self._policies.for_broken(event.status)
        if policy == "call" and event.status == "malformed":
            raise unsendable_call(start.name, event.raw)
        text = whitespace + event.raw if policy in ("text", "repair") else ""
        return [self._text_line(channel, text)] if text else []

    def sse(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> str:
        """Return the text to send for further events: lines of JSON, which this API uses for its streams."""
        chunks = self.feed(events, usage=usage)
        return "".join([json.dumps(chunk, separators=(",", ":")) + "\n" for chunk in chunks])

    def keep_alive(self) -> Chunk:
        """Return a line without output, to keep the connection alive."""
        return self._text_line("content", "")

    def response(self, message: Message, *, usage: AnyUsage | None = None) -> Chunk:
        """Return a response that is not streamed.

        :raises MalformedOutput: if a call is malformed and the policy ``malformed_call`` is ``call``, because
            this API cannot express such a call.
        """
        self._count(usage)
        texts: dict[Channel, str] = {"content": "", "reasoning": ""}
        calls: list[Chunk] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls.append(self._call(part.id, part.name, part.arguments))
                continue
            keeps = self._policies.malformed_call == "call"
            if keeps and isinstance(part, BrokenCall) and part.status == "malformed":
                raise unsendable_call(part.name, part.raw)
            texts[part.channel] += part.text
        fields = self._message("content", texts["content"])
        if texts["reasoning"]:
            fields["thinking"] = texts["reasoning"]
        if calls:
            fields["tool_calls"] = calls
        return self._last_line(fields, self._reported(reason_of(message)))

    def _call(self, id: str, name: str, arguments: str) -> Chunk:
        value = load_object(name, arguments, self._load_arguments)
        index, self._call_count = self._call_count, self._call_count + 1
        return {"id": id, "function": {"index": index, "name": name, "arguments": value}}

    def _text_line(self, channel: Channel, text: str) -> Chunk:
        return self._line(self._message(channel, text))

    def _message(self, channel: Channel, text: str) -> Chunk:
        """Return the message fields for text; the fields for reasoning include empty content."""
        field = "response" if self.form == "generate" else "content"
        return {field: text} if channel == "content" else {field: "", "thinking": text}

    def _line(self, fields: Chunk) -> Chunk:
        out: Chunk = {"model": self.model, "created_at": self.created}
        if self.form == "generate":
            out |= {"response": "", **fields}
        else:
            out["message"] = {"role": "assistant", "content": "", **fields}
        out["done"] = False
        return out

    def _last_line(self, fields: Chunk, reason: FinishReason) -> Chunk:
        return {
            **self._line(fields),
            "done": True,
            "done_reason": _DONE_REASONS.get(reason, "stop"),
            **({} if self.usage is None else self.usage.to_ollama()),
        }


def ollama_error(message: str) -> Chunk:
    """Return an error object in the format of Ollama's API."""
    return {"error": message}

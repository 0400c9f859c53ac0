"""Encoder for OpenAI Responses, streamed and not streamed.

All events of an output item have the same item id and output index.  The final response contains the same
items as the stream.

A call that turns out to be malformed or truncated is poisoned, so that no client runs it (see
``_core/conversions/make_broken_arguments_unparsable.py``), and its item becomes ``incomplete``. Text for a
free-form (custom) tool cannot be poisoned. So if a call of such a tool is malformed or truncated, the
stream never reports its item as done, and the final response leaves the item out. If the call is malformed,
the response fails.

Reasoning is sent both as text and as a summary, because some clients show only one of them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .._core.conversions.broken_calls import poisoned
from .._core.conversions.chat import reason_of
from .._core.conversions.make_broken_arguments_unparsable import unsendable_call
from .._core.conversions.responses import ITEM_IDS, message_item, output_text, reasoning_item
from ..dialects import IdFormat
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
from ..message import BrokenCall, Message, TextPart
from ..parser import Parser
from ._base_encoder import Chunk, StreamEncoder
from ._compatibility_options import WireChoice
from ._usage import AnyUsage

_RESPONSE_ID: Final = IdFormat("resp_{random}")
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Value of ``incomplete_details.reason`` for each finish reason."""
CUSTOM_INPUT: Final = "input"
"""Name of the only parameter of each function that represents a free-form tool."""


class ResponsesStream(StreamEncoder):
    """Encoder that turns the events of a parser into the events of a Responses stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        options: WireChoice | None = None,
        id: str | None = None,
        created: int | None = None,
        custom_tools: Iterable[str] = (),
        namespaces: Mapping[str, tuple[str, str]] | None = None,
        echo: Mapping[str, object] | None = None,
        seal: Callable[[str], str] | None = None,
    ) -> None:
        """Create an encoder.

        :param custom_tools: names of free-form tools.
        :param namespaces: namespace and short name of each tool that is in a namespace, keyed by the name
            that the model sees.
        :param echo: request fields that the response repeats.
        :param seal: function that encrypts reasoning for clients, which send it back.
        """
        super().__init__(parser, model, options)
        self._parser = parser
        self.id = id or _RESPONSE_ID.new("", 0)
        """Id of the response, equal in all events."""
        self.created = int(time.time()) if created is None else created
        """Unix time of the response."""
        self.logprobs: list[Chunk] = []
        """Log probabilities to send with the next text delta."""
        self._error: Chunk | None = None
        self._custom = frozenset(custom_tools)
        self._namespaces = dict(namespaces or {})
        self._echo = dict(echo or {})
        self._seal = seal
        self._sequence = 0
        self._items: list[_Item] = []
        self._open: _Item | None = None
        self._started = False

    def feed(self, events: Iterable[Event], *, usage: AnyUsage | None = None) -> list[Chunk]:
        """Return stream events for parser events; the first call also opens the stream."""
        self._count(usage)
        out: list[Chunk] = []
        if not self._started:
            self._started = True
            for kind in ("response.created", "response.in_progress"):
                self._emit(out, kind, response=self._response("in_progress"))
        for event in self._filter.feed(events):
            if self._closed and self._skips(event):
                break
            if isinstance(event, Text):
                if event.text:
                    self._add_text(event.channel, event.text, out)
            elif isinstance(event, CallArgs):
                text = self._calls.add_arguments(event.json) if event.json else ""
                if text and self._open is not None:
                    self._open.add(text, self, out)
            elif isinstance(event, CallStart):
                self._start_call(event, out)
            elif isinstance(event, Diagnostic):
                error = self._calls.record_diagnostic(event)
                if error is not None:
                    out += self.fail("server_error", str(error))
            elif isinstance(event, CallEnd):
                self._end_call(event, out)
            elif isinstance(event, Finish):
                error = self._calls.policy_error(event)
                if error is not None:
                    out += self.fail("server_error", str(error))
                else:
                    self._finish(self.finish_reason, out)
        return out

    def response(self, message: Message, *, usage: AnyUsage | None = None) -> Chunk:
        """Return a response that is not streamed, equal to the one in a stream's last event.

        After a stream of the same message, the ids of the items are those of the stream.

        :raises MalformedOutput: if the call of a free-form tool is malformed.
        """
        self._count(usage)
        whole = ResponsesStream(
            self._parser,
            model=self.model,
            options=self.options,
            id=self.id,
            created=self.created,
            custom_tools=self._custom,
            namespaces=self._namespaces,
            echo=self._echo,
            seal=self._seal,
        )
        whole.usage, whole.logprobs = self.usage, self.take_logprobs()
        return whole._encode(message, self._items)

    def _encode(self, message: Message, streamed: list[_Item]) -> Chunk:
        """Return the response for a whole message.

        :param streamed: items that a stream has sent for the same output.
        """
        unsent: list[Chunk] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                self._add_text(part.channel, part.text, unsent)
                continue
            if isinstance(part, BrokenCall) and part.name in self._custom:
                if part.status == "malformed":
                    raise unsendable_call(part.name, part.raw)
                continue
            call = self._call_item(part.id, part.name)
            self._open_item(call, unsent)
            if isinstance(part, BrokenCall):
                call.add(poisoned(part), self, unsent)
                self._calls.malformed = self._calls.malformed or part.status == "malformed"
                self._close_item(unsent, "incomplete")
            else:
                call.add(part.arguments, self, unsent)
                self._close_item(unsent, "completed")
        for item, sent in zip(self._items, streamed, strict=False):
            if item.kind == sent.kind:
                item.id = sent.id
        return self._finish(self._reported(self._calls.finish_reason(reason_of(message))), unsent)

    def _start_call(self, event: CallStart, out: list[Chunk]) -> None:
        self._calls.open_call(event)
        self._open_item(self._call_item(event.id, event.name), out)

    def _end_call(self, event: CallEnd, out: list[Chunk]) -> None:
        call = self._open
        error = self._calls.policy_error(event)
        if error is not None:
            out += self.fail("server_error", str(error))
        elif call is None:
            pass
        elif event.status == "complete":
            rest = self._calls.flush()
            if rest:
                call.add(rest, self, out)
            self._calls.close_call(event.status)
            self._close_item(out, "completed")
        elif isinstance(call, _CallItem) and call.custom:
            self._calls.flush()
            self._calls.close_call(event.status)
            self._items.remove(call)
            self._open = None
            if event.status == "malformed":
                out += self.fail("server_error", str(unsendable_call(call.name, event.raw)))
        else:
            call.add(self._calls.flush() + self._calls.close_call(event.status), self, out)
            self._close_item(out, "incomplete")

    def _call_item(self, id: str, name: str) -> _CallItem:
        namespace, shown = self._namespaces.get(name, ("", name))
        return _CallItem(id, shown, custom=name in self._custom, namespace=namespace)

    def _add_text(self, channel: Channel, text: str, out: list[Chunk]) -> None:
        if self._open is None or self._open.kind != channel:
            self._open_item(_ReasoningItem(self._seal) if channel == "reasoning" else _MessageItem(), out)
        if self._open is not None:
            self._open.add(text, self, out)

    def _open_item(self, item: _Item, out: list[Chunk]) -> None:
        self._close_item(out, "completed")
        item.index = len(self._items)
        self._items.append(item)
        self._open = item
        self._emit(out, "response.output_item.added", output_index=item.index, item=item.initial())
        item.begin(self, out)

    def _close_item(self, out: list[Chunk], status: str) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        item.status = status
        item.end(self, out)
        self._emit(out, "response.output_item.done", output_index=item.index, item=item.to_dict())

    def fail(self, code: str, message: str) -> list[Chunk]:
        """Return the events that end the stream with an error; the open item becomes incomplete."""
        out = [] if self._started else self.feed(())
        if not self._closed:
            self._closed = self.failed = True
            # Clients run a call as soon as its item is reported as done, so leave out the item of an
            # unfinished call.
            if isinstance(self._open, _CallItem):
                self._items.remove(self._open)
                self._open = None
            self._close_item(out, "incomplete")
            self._error = {"code": code, "message": message}
            self._emit(out, "response.failed", response=self._response("failed"))
        return out

    def take_logprobs(self) -> list[Chunk]:
        """Return and clear the log probabilities for the next text delta."""
        logprobs, self.logprobs = self.logprobs, []
        return logprobs

    def _finish(self, reason: FinishReason, out: list[Chunk]) -> Chunk:
        """Close the open item and the response; return the response."""
        self._close_item(out, "completed")
        self._closed = True
        details = _INCOMPLETE.get(reason)
        status = "completed" if details is None else "incomplete"
        response = self._response(status, details)
        self._emit(out, f"response.{status}", response=response)
        return response

    def _response(self, status: str, details: str | None = None) -> Chunk:
        """Return the response object with all items.

        :param details: reason why the response is incomplete.
        """
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "model": self.model,
            "status": status,
            "error": self._error,
            "incomplete_details": None if details is None else {"reason": details},
            "instructions": None,
            "metadata": {},
            "output": [item.to_dict() for item in self._items],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            **self._echo,
            "usage": None if self.usage is None else self.usage.to_responses(),
        }

    def _emit(self, out: list[Chunk], kind: str, **fields: object) -> None:
        out.append({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1


def _emit_for(stream: ResponsesStream, item: _Item, out: list[Chunk], kind: str, **fields: object) -> None:
    """Emit an event that belongs to an item."""
    stream._emit(out, kind, item_id=item.id, output_index=item.index, **fields)  # noqa: SLF001 - the same file


class _Item:
    """Output item of a response.

    The stream announces an item, then calls :meth:`begin`, :meth:`add` for each text delta, and
    :meth:`end`; then it announces that the item is done.
    """

    kind = ""

    def __init__(self) -> None:
        self.id = ""
        self.index = 0
        self.status = "in_progress"
        self.text: list[str] = []

    def initial(self) -> Chunk:
        """Return the item in the form in which the stream announces it, before it has content."""
        raise NotImplementedError

    def to_dict(self) -> Chunk:
        """Return the item with its content so far."""
        raise NotImplementedError

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        """Emit the events that follow the announcement of the item."""

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        """Add text, and emit its delta."""
        raise NotImplementedError

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        """Emit the last events before the item is reported as done."""


class _ReasoningItem(_Item):
    kind = "reasoning"

    def __init__(self, seal: Callable[[str], str] | None) -> None:
        super().__init__()
        self.id = ITEM_IDS["reasoning"].new("", 0)
        self._seal = seal
        self._sealed: Chunk = {}

    def initial(self) -> Chunk:
        return {"id": self.id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress"}

    def to_dict(self) -> Chunk:
        return {**reasoning_item(self.id, "".join(self.text), self.status), **self._sealed}

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        part = {"type": "reasoning_text", "text": ""}
        _emit_for(stream, self, out, "response.content_part.added", content_index=0, part=part)
        summary = {"type": "summary_text", "text": ""}
        _emit_for(stream, self, out, "response.reasoning_summary_part.added", summary_index=0, part=summary)

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        _emit_for(stream, self, out, "response.reasoning_text.delta", content_index=0, delta=text)
        _emit_for(stream, self, out, "response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = "".join(self.text)
        if self._seal is not None:
            self._sealed = {"encrypted_content": self._seal(text)}
        _emit_for(stream, self, out, "response.reasoning_text.done", content_index=0, text=text)
        part = {"type": "reasoning_text", "text": text}
        _emit_for(stream, self, out, "response.content_part.done", content_index=0, part=part)
        _emit_for(stream, self, out, "response.reasoning_summary_text.done", summary_index=0, text=text)
        summary = {"type": "summary_text", "text": text}
        _emit_for(stream, self, out, "response.reasoning_summary_part.done", summary_index=0, part=summary)


class _MessageItem(_Item):
    kind = "content"

    def __init__(self) -> None:
        super().__init__()
        self.id = ITEM_IDS["content"].new("", 0)
        self.logprobs: list[Chunk] = []

    def initial(self) -> Chunk:
        return {"id": self.id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}

    def to_dict(self) -> Chunk:
        return message_item(self.id, "".join(self.text), self.status, self.logprobs)

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        _emit_for(stream, self, out, "response.content_part.added", content_index=0, part=output_text("", []))

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        logprobs = stream.take_logprobs()
        self.logprobs += logprobs
        _emit_for(
            stream, self, out, "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs
        )

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = "".join(self.text)
        self.logprobs += stream.take_logprobs()
        part = output_text(text, self.logprobs)
        _emit_for(
            stream, self, out, "response.output_text.done", content_index=0, text=text, logprobs=self.logprobs
        )
        _emit_for(stream, self, out, "response.content_part.done", content_index=0, part=part)


class _CallItem(_Item):
    kind = "call"

    def __init__(self, id: str, name: str, *, custom: bool, namespace: str) -> None:
        super().__init__()
        self.id = ITEM_IDS["call"].new("", 0)
        self.call_id = id
        self.name = name
        self.namespace = namespace
        self.custom = custom
        self.input_reader = _InputReader()
        self.sent: list[str] = []

    def initial(self) -> Chunk:
        return self._item("", "in_progress")

    def to_dict(self) -> Chunk:
        return self._item(self._arguments(), self.status)

    def _item(self, text: str, status: str) -> Chunk:
        kind, field = ("custom_tool_call", "input") if self.custom else ("function_call", "arguments")
        item: Chunk = {"id": self.id, "type": kind, "call_id": self.call_id, "name": self.name, field: text}
        if self.namespace:
            item["namespace"] = self.namespace
        if not self.custom:
            item["status"] = status
        return item

    def _arguments(self) -> str:
        text = "".join(self.text)
        if self.custom:
            return _read_input(text)
        return text or ("{}" if self.status == "completed" else "")

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        if not self.custom:
            _emit_for(stream, self, out, "response.function_call_arguments.delta", delta=text)
            return
        delta = self.input_reader.feed(text)
        if delta:
            self.sent.append(delta)
            _emit_for(stream, self, out, "response.custom_tool_call_input.delta", delta=delta)

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = self._arguments()
        if self.custom:
            rest = text.removeprefix("".join(self.sent))
            if rest:
                _emit_for(stream, self, out, "response.custom_tool_call_input.delta", delta=rest)
            _emit_for(stream, self, out, "response.custom_tool_call_input.done", input=text)
        else:
            _emit_for(
                stream, self, out, "response.function_call_arguments.done", arguments=text, name=self.name
            )


class _InputReader:
    """Incremental reader that extracts the text for a free-form tool from its JSON arguments.

    The reader returns text only if ``input`` is the first key of the object.  Otherwise the whole text is
    sent at the end of the call.
    """

    def __init__(self) -> None:
        self._text = ""
        self._started = False
        self._finished = False

    def feed(self, text: str) -> str:
        """Add more JSON, and return the text that can now be decoded."""
        if self._finished:
            return ""
        self._text += text
        if not self._started:
            start = _INPUT_START.match(self._text)
            if start is None:
                return ""
            self._started = True
            self._text = self._text[start.end() :]
        match = _CHARACTERS.match(self._text)
        characters = match[0] if match is not None else ""
        self._text = self._text[len(characters) :]
        self._finished = self._text.startswith('"')
        value = json.loads(f'"{characters}"', strict=False)
        return value if isinstance(value, str) else ""


_INPUT_START: Final = re.compile(rf'\s*\{{\s*"{CUSTOM_INPUT}"\s*:\s*"')
_CHARACTERS: Final = re.compile(
    # An incomplete escape or half a surrogate pair does not match, and is read again with the next data.
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})+"
)


def _read_input(arguments: str) -> str:
    """Return the text in the JSON arguments of a free-form tool, or the arguments if they lack this text."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(CUSTOM_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments

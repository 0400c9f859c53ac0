"""OpenAI Responses, streamed and whole.

Every item is added, filled and done under one id and one output index, and the
final response carries the very same items.  A call that turns out malformed or was
cut off is spoilt, so that no client runs it (``broken.py``), and its item is
``incomplete``.  The text of a free-form tool cannot be spoilt: such an item is never
done and not in the final response, and if it is malformed the response has failed.
Reasoning goes out twice, as text
and as summary: some clients show only the one, some only the other, and all of
them accept both.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ..dialects._id_format import IdFormat
from ..errors import UsageError
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
from ._chat import Chunk, tidy_of
from ._poisoned_calls import SentCalls, cannot_say

_RESPONSE_ID: Final = IdFormat("resp_{random}")
_ITEM_IDS: Final = {
    "reasoning": IdFormat("rs_{random}"),
    "content": IdFormat("msg_{random}"),
    "call": IdFormat("fc_{random}"),
}
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of a response that is not complete, in this API's words."""
CUSTOM_INPUT: Final = "input"
"""A free-form tool is offered to the model as a function with this one argument."""


class ResponsesStream:
    """Turns the events of a parser into the events of a Responses stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        id: str | None = None,
        created: int | None = None,
        custom_tools: Iterable[str] = (),
        namespaces: Mapping[str, tuple[str, str]] | None = None,
        echo: Mapping[str, object] | None = None,
        seal: Callable[[str], str] | None = None,
    ) -> None:
        """Prepare a stream.

        :param parser: whose events they are.
        :param custom_tools: names of free-form tools.
        :param namespaces: by the name that the model calls it, the namespace of a tool and its name there.
        :param echo: fields of the request that the response repeats.
        :param seal: makes the ``encrypted_content`` of reasoning, for clients that send it back.
        """
        self.model = model
        """The model's name, as the client is to see it."""
        self.id = id or _RESPONSE_ID.new("", 0)
        """Id of the response; the same in every event."""
        self.created = int(time.time()) if created is None else created
        """Unix time."""
        self.usage: Mapping[str, object] | None = None
        """Set it before the last events are encoded."""
        self.logprobs: list[Chunk] = []
        """Log probabilities for the next piece of the answer, which takes them."""
        self._error: Chunk | None = None
        self._custom = frozenset(custom_tools)
        self._namespaces = dict(namespaces or {})
        self._echo = dict(echo or {})
        self._seal = seal
        self._tidy = tidy_of(parser)
        self._calls = SentCalls(parser)
        self.failed = False
        """The output is an error, by the policies or because this API cannot say it; the stream has ended."""
        self._sequence = 0
        self._items: list[_Item] = []
        self._open: _Item | None = None
        self._started = False
        self._finished = False

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come, in the words of Chat Completions."""
        return self._calls.reason(self._tidy.finish_reason)

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The stream's events for these events of the parser; the first call opens the stream."""
        out: list[Chunk] = []
        if not self._started:
            self._started = True
            for kind in ("response.created", "response.in_progress"):
                self._emit(out, kind, response=self._response("in_progress"))
        for event in self._tidy.push(events):
            if self.failed:
                break
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs a ResponsesStream of its own")
            if isinstance(event, Text):
                if event.text:
                    self._text(event.channel, event.text, out)
            elif isinstance(event, CallArgs):
                piece = self._calls.add(event.json) if event.json else ""
                if piece and self._open is not None:
                    self._open.add(piece, self, out)
            elif isinstance(event, CallStart):
                self._calls.begin(event)
                self._begin(self._call(event.id, event.name), out)
            elif isinstance(event, Diagnostic):
                self._calls.note(event)
            elif isinstance(event, CallEnd):
                self._call_ends(event, out)
            elif isinstance(event, Finish):
                error = self._calls.error(event)
                if error is not None:
                    out += self.fail("server_error", str(error))
                else:
                    self._finish(self.finish_reason, out)
        return out

    def response(self, message: Message) -> Chunk:
        """The response that is not streamed: what the stream's last event would carry."""
        if self._started:
            raise UsageError("a response is streamed or whole: make a ResponsesStream for each")
        self._started = True
        unsent: list[Chunk] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                self._text(part.channel, part.text, unsent)
                continue
            if isinstance(part, BrokenCall) and part.name in self._custom:
                if part.status == "malformed":
                    raise cannot_say(part.name, part.raw)
                continue
            call = self._call(part.id, part.name)
            self._begin(call, unsent)
            if isinstance(part, BrokenCall):
                call.add(self._calls.whole(part), self, unsent)
                self._end(unsent, "incomplete")
            else:
                call.add(part.arguments, self, unsent)
                self._end(unsent, "completed")
        return self._finish(self._calls.reason(message.finish_reason), unsent)

    def _call_ends(self, event: CallEnd, out: list[Chunk]) -> None:
        call = self._open
        error = self._calls.error(event)
        if error is not None:
            out += self.fail("server_error", str(error))
        elif call is None:
            pass
        elif event.status == "complete":
            rest = self._calls.rest()
            if rest:
                call.add(rest, self, out)
            self._calls.ending(event.status)
            self._end(out, "completed")
        elif isinstance(call, _Call) and call.custom:
            self._calls.rest()
            self._calls.ending(event.status)
            self._items.remove(call)
            self._open = None
            if event.status == "malformed":
                out += self.fail("server_error", str(cannot_say(call.name, event.raw)))
        else:
            call.add(self._calls.rest() + self._calls.ending(event.status), self, out)
            self._end(out, "incomplete")

    def _call(self, id: str, name: str) -> _Call:
        namespace, shown = self._namespaces.get(name, ("", name))
        return _Call(id, shown, custom=name in self._custom, namespace=namespace)

    def _text(self, channel: Channel, text: str, out: list[Chunk]) -> None:
        if self._open is None or self._open.kind != channel:
            self._begin(_Reasoning(self._seal) if channel == "reasoning" else _Answer(), out)
        if self._open is not None:
            self._open.add(text, self, out)

    def _begin(self, item: _Item, out: list[Chunk]) -> None:
        self._end(out, "completed")
        item.index = len(self._items)
        self._items.append(item)
        self._open = item
        self._emit(out, "response.output_item.added", output_index=item.index, item=item.opening())
        item.begin(self, out)

    def _end(self, out: list[Chunk], status: str) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        item.status = status
        item.end(self, out)
        self._emit(out, "response.output_item.done", output_index=item.index, item=item.whole())

    def fail(self, code: str, message: str) -> list[Chunk]:
        """The end of a stream that cannot go on; what was open stays incomplete."""
        out = [] if self._started else self.encode(())
        if not self._finished:
            self._finished = self.failed = True
            if isinstance(self._open, _Call):  # clients run a call when its item is done
                self._items.remove(self._open)
                self._open = None
            self._end(out, "incomplete")
            self._error = {"code": code, "message": message}
            self._emit(out, "response.failed", response=self._response("failed"))
        return out

    def take_logprobs(self) -> list[Chunk]:
        """What the next piece of the answer carries."""
        found, self.logprobs = self.logprobs, []
        return found

    def _finish(self, reason: FinishReason, out: list[Chunk]) -> Chunk:
        """Close what is open, and the response."""
        self._end(out, "completed")
        self._finished = True
        details = _INCOMPLETE.get(reason)
        status = "completed" if details is None else "incomplete"
        response = self._response(status, details)
        self._emit(out, f"response.{status}", response=response)
        return response

    def _response(self, status: str, details: str | None = None) -> Chunk:
        """The response object around its items.

        :param details: why it is incomplete.
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
            "output": [item.whole() for item in self._items],
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            **self._echo,
            "usage": dict(self.usage) if self.usage is not None else None,
        }

    def _emit(self, out: list[Chunk], kind: str, **fields: object) -> None:
        out.append({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1

    def emit_for(self, item: _Item, out: list[Chunk], kind: str, **fields: object) -> None:
        """An event that belongs to an item."""
        self._emit(out, kind, item_id=item.id, output_index=item.index, **fields)


class _Item:
    """An item of the output."""

    kind = ""

    def __init__(self) -> None:
        self.id = ""
        self.index = 0
        self.status = "in_progress"
        self.text: list[str] = []

    def opening(self) -> Chunk:
        """The item as it is announced."""
        raise NotImplementedError

    def whole(self) -> Chunk:
        """The item with all it holds."""
        raise NotImplementedError

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        """What follows the announcement."""

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        """More of its text."""
        raise NotImplementedError

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        """What precedes its end."""


class _Reasoning(_Item):
    kind = "reasoning"

    def __init__(self, seal: Callable[[str], str] | None) -> None:
        super().__init__()
        self.id = _ITEM_IDS["reasoning"].new("", 0)
        self._seal = seal
        self._sealed: Chunk = {}

    def opening(self) -> Chunk:
        return {"id": self.id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress"}

    def whole(self) -> Chunk:
        text = "".join(self.text)
        return {
            "id": self.id,
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
            "content": [{"type": "reasoning_text", "text": text}],
            "status": self.status,
            **self._sealed,
        }

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        part = {"type": "reasoning_text", "text": ""}
        stream.emit_for(self, out, "response.content_part.added", content_index=0, part=part)
        summary = {"type": "summary_text", "text": ""}
        stream.emit_for(self, out, "response.reasoning_summary_part.added", summary_index=0, part=summary)

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        stream.emit_for(self, out, "response.reasoning_text.delta", content_index=0, delta=text)
        stream.emit_for(self, out, "response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = "".join(self.text)
        if self._seal is not None:
            self._sealed = {"encrypted_content": self._seal(text)}
        stream.emit_for(self, out, "response.reasoning_text.done", content_index=0, text=text)
        part = {"type": "reasoning_text", "text": text}
        stream.emit_for(self, out, "response.content_part.done", content_index=0, part=part)
        stream.emit_for(self, out, "response.reasoning_summary_text.done", summary_index=0, text=text)
        summary = {"type": "summary_text", "text": text}
        stream.emit_for(self, out, "response.reasoning_summary_part.done", summary_index=0, part=summary)


class _Answer(_Item):
    kind = "content"

    def __init__(self) -> None:
        super().__init__()
        self.id = _ITEM_IDS["content"].new("", 0)
        self.logprobs: list[Chunk] = []

    def opening(self) -> Chunk:
        return {"id": self.id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}

    def whole(self) -> Chunk:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": [_output_text("".join(self.text), self.logprobs)],
        }

    def begin(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        stream.emit_for(self, out, "response.content_part.added", content_index=0, part=_output_text("", []))

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        logprobs = stream.take_logprobs()
        self.logprobs += logprobs
        stream.emit_for(
            self, out, "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs
        )

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = "".join(self.text)
        self.logprobs += stream.take_logprobs()
        part = _output_text(text, self.logprobs)
        stream.emit_for(
            self, out, "response.output_text.done", content_index=0, text=text, logprobs=self.logprobs
        )
        stream.emit_for(self, out, "response.content_part.done", content_index=0, part=part)


class _Call(_Item):
    kind = "call"

    def __init__(self, id: str, name: str, *, custom: bool, namespace: str) -> None:
        super().__init__()
        self.id = _ITEM_IDS["call"].new("", 0)
        self.call_id = id
        self.name = name
        self.namespace = namespace
        self.custom = custom
        self.member = _TextMember()
        self.sent: list[str] = []

    def opening(self) -> Chunk:
        return self._item("", "in_progress")

    def whole(self) -> Chunk:
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
            return _free_form(text)
        return text or ("{}" if self.status == "completed" else "")

    def add(self, text: str, stream: ResponsesStream, out: list[Chunk]) -> None:
        self.text.append(text)
        if not self.custom:
            stream.emit_for(self, out, "response.function_call_arguments.delta", delta=text)
            return
        piece = self.member.feed(text)
        if piece:
            self.sent.append(piece)
            stream.emit_for(self, out, "response.custom_tool_call_input.delta", delta=piece)

    def end(self, stream: ResponsesStream, out: list[Chunk]) -> None:
        text = self._arguments()
        if self.custom:
            rest = text.removeprefix("".join(self.sent))
            if rest:
                stream.emit_for(self, out, "response.custom_tool_call_input.delta", delta=rest)
            stream.emit_for(self, out, "response.custom_tool_call_input.done", input=text)
        else:
            stream.emit_for(
                self, out, "response.function_call_arguments.done", arguments=text, name=self.name
            )


def _output_text(text: str, logprobs: list[Chunk]) -> Chunk:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


class _TextMember:
    """The text of a free-form tool, out of the JSON that it comes in, as it comes.

    Only where it is the first member; in any other case nothing comes out, and
    the end of the call tells all.
    """

    def __init__(self) -> None:
        self._text = ""
        self._begun = False
        self._over = False

    def feed(self, text: str) -> str:
        """What more of the text is known."""
        if self._over:
            return ""
        self._text += text
        if not self._begun:
            found = _MEMBER.match(self._text)
            if found is None:
                return ""
            self._begun = True
            self._text = self._text[found.end() :]
        found = _CHARACTERS.match(self._text)
        taken = found[0] if found is not None else ""
        self._text = self._text[len(taken) :]
        self._over = self._text.startswith('"')
        value = json.loads(f'"{taken}"', strict=False)
        return value if isinstance(value, str) else ""


_MEMBER: Final = re.compile(rf'\s*\{{\s*"{CUSTOM_INPUT}"\s*:\s*"')
_CHARACTERS: Final = re.compile(
    # Half of a surrogate pair waits for the other half.
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})+"
)


def _free_form(arguments: str) -> str:
    """The text that a free-form tool is called with."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(CUSTOM_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments

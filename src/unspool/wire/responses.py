"""OpenAI Responses, streamed and whole.

Every item is added, filled and done under one id and one output index, and the
final response carries the very same items.  Reasoning goes out twice, as text
and as summary: some clients show only the one, some only the other, and all of
them accept both.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

from .._core.values.errors import UsageError
from .._core.values.events import CallArgs, CallEnd, CallStart, Event, Finish, Text
from .._core.values.finish import FinishRule
from .._core.values.ids import IdFormat
from .._core.values.message import Message, TextPart, ToolCall
from .._core.values.policies import Policies
from .chat import Chunk

_DEFAULTS: Final = Policies()
_RESPONSE_ID: Final = IdFormat("resp_{random}")
_ITEM_IDS: Final = {
    "reasoning": IdFormat("rs_{random}"),
    "content": IdFormat("msg_{random}"),
    "call": IdFormat("fc_{random}"),
}
CUSTOM_INPUT: Final = "input"
"""A free-form tool is offered to the model as a function with this one argument."""


class ResponsesStream:
    """Turns tidied events into the events of a Responses stream."""

    def __init__(
        self,
        *,
        model: str = "",
        id: str | None = None,
        created: int | None = None,
        policies: Policies = _DEFAULTS,
        forced: bool = False,
        custom_tools: Iterable[str] = (),
        echo: Mapping[str, object] | None = None,
    ) -> None:
        """Prepare a stream.

        :param custom_tools: names of free-form tools.
        :param echo: fields of the request that the response repeats.
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
        self._echo = dict(echo or {})
        self._rule = FinishRule(forced=forced, policies=policies)
        self._sequence = 0
        self._items: list[_Item] = []
        self._open: _Item | None = None
        self._started = False
        self._finished = False

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The stream's events for these events; the first call opens the stream."""
        out: list[Chunk] = []
        if not self._started:
            self._started = True
            for kind in ("response.created", "response.in_progress"):
                self._emit(out, kind, response=self._response("in_progress"))
        for event in events:
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs a ResponsesStream of its own")
            self._rule.see(event)
            if isinstance(event, Text):
                if event.text:
                    self._text(event, out)
            elif isinstance(event, CallStart):
                self._begin(_Call(event, custom=event.name in self._custom), out)
            elif isinstance(event, CallArgs):
                if event.json and self._open is not None:
                    self._open.add(event.json, self, out)
            elif isinstance(event, CallEnd):
                self._end(out, "completed" if event.status == "complete" else "incomplete")
            elif isinstance(event, Finish):
                self._finish(out)
        return out

    def _text(self, event: Text, out: list[Chunk]) -> None:
        if self._open is None or self._open.kind != event.channel:
            self._begin(_Reasoning() if event.channel == "reasoning" else _Answer(), out)
        if self._open is not None:
            self._open.add(event.text, self, out)

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
            self._finished = True
            self._end(out, "incomplete")
            self._error = {"code": code, "message": message}
            self._emit(out, "response.failed", response=self._response("failed"))
        return out

    def take_logprobs(self) -> list[Chunk]:
        """What the next piece of the answer carries."""
        found, self.logprobs = self.logprobs, []
        return found

    def _finish(self, out: list[Chunk]) -> None:
        self._end(out, "completed")
        self._finished = True
        status = "incomplete" if self._rule.reason() in ("length", "content_filter") else "completed"
        self._emit(out, f"response.{status}", response=self._response(status))

    def _response(self, status: str) -> Chunk:
        items = [item.whole() for item in self._items]
        return response_head(self, status, self._rule, items)

    def _emit(self, out: list[Chunk], kind: str, **fields: object) -> None:
        out.append({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1

    def emit_for(self, item: _Item, out: list[Chunk], kind: str, **fields: object) -> None:
        """An event that belongs to an item."""
        self._emit(out, kind, item_id=item.id, output_index=item.index, **fields)

    @property
    def error(self) -> Mapping[str, object] | None:
        """Why the response failed."""
        return self._error

    @property
    def echoed(self) -> Mapping[str, object]:
        """Fields of the request that the response repeats."""
        return self._echo


def response_head(stream: ResponsesStream, status: str, rule: FinishRule, items: list[Chunk]) -> Chunk:
    """The response object around its items."""
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(rule.reason()) if status == "incomplete" else None
    return {
        "id": stream.id,
        "object": "response",
        "created_at": stream.created,
        "model": stream.model,
        "status": status,
        "error": None if stream.error is None else dict(stream.error),
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "metadata": {},
        "output": items,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        **stream.echoed,
        "usage": dict(stream.usage) if stream.usage is not None else None,
    }


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

    def __init__(self) -> None:
        super().__init__()
        self.id = _ITEM_IDS["reasoning"].new("", 0)

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

    def __init__(self, start: CallStart, *, custom: bool) -> None:
        super().__init__()
        self.id = _ITEM_IDS["call"].new("", 0)
        self.call_id = start.id
        self.name = start.name
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
        found = _MEMBER.match(arguments)
        if found is None:
            return arguments
        begun = _CHARACTERS.match(arguments, found.end())
        cut = json.loads(f'"{begun[0]}"', strict=False) if begun is not None else ""
        return cut if isinstance(cut, str) else ""
    text = value.get(CUSTOM_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def response_object(message: Message, stream: ResponsesStream) -> Chunk:
    """A response that is not streamed: what the stream's last event would carry.

    The stream gives ids, model and echoed fields; it must not have encoded anything.
    """
    events: list[Event] = []
    index = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            events.append(Text(part.channel, part.text, 0, 0))
        elif isinstance(part, ToolCall):
            events.append(CallStart(index, part.name, part.id, 0, 0))
            events.append(CallArgs(index, part.arguments, 0, 0))
            events.append(CallEnd(index, "complete", "", 0, 0))
            index += 1
    reason = message.finish_reason
    truncated = any(problem.kind in ("truncated_call", "cut_head") for problem in message.problems)
    finish = Finish("length" if truncated else reason, 0)
    last = stream.encode([*events, finish])[-1]["response"]
    if not isinstance(last, dict):
        raise TypeError("a Responses stream ends with its response")
    return last

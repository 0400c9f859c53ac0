"""Ollama's ``/api/chat`` and ``/api/generate``, streamed and whole.

Arguments are objects on this wire, so a call is sent when it is complete, whole.
One that turns out malformed or is cut off was never announced: it is text, or
nothing, as the policies say (``malformed_call``, ``truncated_call``); where they say
``keep`` the response is an error, because it has no place for such a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from ..errors import MalformedOutput, UsageError
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
from ._chat import Chunk, tidy_of
from ._poisoned_calls import SentCalls, as_object, cannot_say

Form = Literal["chat", "generate"]
_REASONS: Final = {"length": "length"}
"""Finish reasons in this API's words; all others are ``stop``."""


class OllamaStream:
    """Turns the events of a parser into the lines of an Ollama stream."""

    def __init__(
        self,
        parser: Parser,
        *,
        model: str = "",
        form: Form = "chat",
        created: float | None = None,
        load_arguments: Callable[[str], object] = json.loads,
    ) -> None:
        """Prepare a stream.

        :param form: of which of the two APIs.
        :param created: Unix time.
        :param load_arguments: makes a call's ``arguments`` of their text, which is that of a JSON object.
        """
        self.model = model
        """The model's name, as the client is to see it."""
        self.form = form
        when = datetime.now(UTC) if created is None else datetime.fromtimestamp(created, UTC)
        self.created = when.isoformat().replace("+00:00", "Z")
        self.counts: Mapping[str, int] = {}
        """``prompt_eval_count`` and its like; set them before the last events are encoded."""
        self.failed = False
        """The output is an error, by the policies or because this API cannot say it; the stream has ended."""
        self._load_arguments = load_arguments
        self._policies = parser.policies
        self._tidy = tidy_of(parser)
        self._calls = SentCalls(parser)
        self._open: CallStart | None = None
        self._pieces: list[str] = []
        self._count = 0
        self._finished = False

    @property
    def finish_reason(self) -> FinishReason:
        """How the output ended, as far as it has come, in the words of Chat Completions."""
        return self._tidy.finish_reason

    def encode(self, events: Iterable[Event]) -> list[Chunk]:
        """The lines for these events of the parser."""
        out: list[Chunk] = []
        for event in self._tidy.push(events):
            if self.failed:
                break
            if self._finished:
                raise UsageError(f"{event!r} after Finish: every output needs an OllamaStream of its own")
            if isinstance(event, Text):
                if event.text:
                    out.append(self._text(event.channel, event.text))
            elif isinstance(event, CallArgs):
                self._pieces.append(event.json)
            elif isinstance(event, CallStart):
                self._calls.begin(event)
                self._open, self._pieces = event, []
            elif isinstance(event, Diagnostic):
                self._calls.note(event)
            elif isinstance(event, (CallEnd, Finish)):
                try:
                    out += self._ends(event)
                except MalformedOutput as error:
                    self.failed = True
                    out.append(ollama_error(str(error)))
        return out

    def _ends(self, event: CallEnd | Finish) -> list[Chunk]:
        """A call is over, or the output is."""
        error = self._calls.error(event)
        if error is not None:
            raise error
        if isinstance(event, Finish):
            self._finished = True
            return [self._last(self._message("content", ""), self.finish_reason)]
        start = self._open
        assert start is not None  # noqa: S101 - a call begins before it ends
        arguments = "".join(self._pieces)
        channel, before = self._tidy.contexts.pop(event.index, ("content", ""))
        if event.status == "complete":
            return [self._line({"tool_calls": [self._call(start.id, start.name, arguments)]})]
        policy = self._policies.for_broken(event.status)
        if policy == "keep" and event.status == "malformed":
            raise cannot_say(start.name, event.raw)
        text = before + event.raw if policy in ("text", "repair") else ""
        return [self._text(channel, text)] if text else []

    def alive(self) -> Chunk:
        """A line that adds nothing, and shows that the stream lives."""
        return self._text("content", "")

    def response(self, message: Message) -> Chunk:
        """The response that is not streamed.

        Raises ``MalformedOutput`` if a call is to be kept that is malformed: nothing in this response could.
        """
        texts: dict[Channel, str] = {"content": "", "reasoning": ""}
        calls: list[Chunk] = []
        for part in message.in_order():
            if isinstance(part, ToolCall):
                calls.append(self._call(part.id, part.name, part.arguments))
                continue
            keeps = self._policies.malformed_call == "keep"
            if keeps and isinstance(part, BrokenCall) and part.status == "malformed":
                raise cannot_say(part.name, part.raw)
            texts[part.channel] += part.text
        said = self._message("content", texts["content"])
        if texts["reasoning"]:
            said["thinking"] = texts["reasoning"]
        if calls:
            said["tool_calls"] = calls
        return self._last(said, message.finish_reason)

    def _call(self, id: str, name: str, arguments: str) -> Chunk:
        value = as_object(name, arguments, self._load_arguments)
        index, self._count = self._count, self._count + 1
        return {"id": id, "function": {"index": index, "name": name, "arguments": value}}

    def _text(self, channel: Channel, text: str) -> Chunk:
        return self._line(self._message(channel, text))

    def _message(self, channel: Channel, text: str) -> Chunk:
        """The part of a message that a text is; beside thoughts stands an empty answer."""
        answer = "response" if self.form == "generate" else "content"
        return {answer: text} if channel == "content" else {answer: "", "thinking": text}

    def _line(self, said: Chunk) -> Chunk:
        out: Chunk = {"model": self.model, "created_at": self.created}
        if self.form == "generate":
            out |= {"response": "", **said}
        else:
            out["message"] = {"role": "assistant", "content": "", **said}
        out["done"] = False
        return out

    def _last(self, said: Chunk, reason: FinishReason) -> Chunk:
        return {
            **self._line(said),
            "done": True,
            "done_reason": _REASONS.get(reason, "stop"),
            **self.counts,
        }


def ollama_error(message: str) -> Chunk:
    """An error as this API spells it."""
    return {"error": message}
